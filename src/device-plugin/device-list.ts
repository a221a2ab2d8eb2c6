/** What a pool's list is decided from. Devices are told by their number in the pool. */
export interface DeviceListInput {
  /** How many devices the pool shall have. */
  readonly capacity: number;
  /** Those that pods hold under the pool's resource. */
  readonly inUse: ReadonlySet<number>;
  /** Those that pods still hold under a resource that the pool had before: nobody else may get them. */
  readonly blocked: ReadonlySet<number>;
  /** Those listed until now; of these free ones stay rather than others. */
  readonly listed: ReadonlySet<number>;
}

/**
 * The devices to list: all that are in use, whatever the capacity is by now, and free ones with a number below the
 * capacity until there are as many as the capacity says. So a pool that was shrunk never has more devices than its
 * capacity or than pods hold.
 * @returns numbers, ascending
 */
export function planDeviceList(input: DeviceListInput): readonly number[] {
  const { capacity, inUse, blocked, listed } = input;
  const list = new Set(inUse);
  const fill = (mayEnter: (index: number) => boolean): void => {
    for (let index = 0; index < capacity && list.size < capacity; index++) {
      if (!blocked.has(index) && mayEnter(index)) list.add(index);
    }
  };
  fill((index) => listed.has(index));
  fill(() => true);
  return [...list].sort((one, other) => one - other);
}
