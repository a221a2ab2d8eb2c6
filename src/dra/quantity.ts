import * as z from "zod";

const POWERS = new Map(
  Object.entries({
    ...{ n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 },
    ...{ Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 },
  }),
);

/** A quantity of Kubernetes (`10G`, `1500M`, `2e9`) that is not negative, as a number, rounded up. */
export const quantitySchema = z.union([z.string(), z.number()]).transform((given, context) => {
  const [, digits, exponent = "", suffix = ""] =
    /^\+?(\d+\.?\d*|\.\d+)(?:([eE][-+]?\d+)|([a-zA-Z]*))$/.exec(String(given)) ?? [];
  const power = POWERS.get(suffix);
  if (digits !== undefined && power !== undefined) return Math.ceil(Number(`${digits}${exponent}`) * power);
  context.addIssue({ code: "custom", message: "must be a quantity that is not negative, such as 10G" });
  return z.NEVER;
});
