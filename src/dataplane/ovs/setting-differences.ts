import type { PortSettings } from "../../config/port-settings.ts";
import { settingsBefore } from "./marks.ts";
import { describePolicer, describeQos, policerOf } from "./qos.ts";
import type { InterfaceRow, PortRow, QosRow } from "./rows.ts";
import { describeCell, isAsAsked, settingCells } from "./setting-cells.ts";

/** One thing that is not as asked, in words. */
export interface Difference {
  readonly what: string;
  readonly is: string;
  readonly asked: string;
}

/**
 * Pure: which settings a port does not have as asked. A setting that is not asked for differs only where we have
 * set it once; what others set is theirs.
 * @param qos our QoS rows for this port
 */
export function settingDifferences(
  settings: PortSettings,
  port: PortRow,
  row: InterfaceRow,
  qos: readonly QosRow[],
): readonly Difference[] {
  const cells = settingCells(settings, settingsBefore(port.external_ids));
  const found = cells
    .filter((cell) => !isAsAsked(cell, port, row))
    .map((cell) => ({
      what: cell.what,
      is: describeCell(cell.read(port, row)),
      asked: describeCell(cell.value),
    }));
  const policer = policerOf(settings);
  const limit = {
    what: "limit towards the guest",
    is: describeQos(port, qos),
    asked: describePolicer(policer),
  };
  const ours = qos.some(({ _uuid }) => _uuid === port.qos);
  return limit.is === limit.asked || (policer === undefined && !ours) ? found : [...found, limit];
}
