/** An object's type without the keys that may be undefined; those are optional instead. */
export type Present<Value> = {
  [Key in keyof Value as undefined extends Value[Key] ? never : Key]: Value[Key];
} & { [Key in keyof Value as undefined extends Value[Key] ? Key : never]?: Exclude<Value[Key], undefined> };

/** The keys of an object that have a value. */
export function present<Value extends object>(value: Value): Present<Value> {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined)) as Present<Value>;
}
