import { isAbsolute, normalize } from "node:path";
import { z } from "zod";
import { isResourceName } from "../names/resource-name.ts";

/** A path that can be compared as text. */
export const absolutePath = z
  .string()
  .refine((path) => isAbsolute(path) && normalize(path) === path && (path === "/" || !path.endsWith("/")), {
    error: "must be an absolute path without '.', '..' or a slash at its end",
  });

/** An extended resource of Kubernetes. */
export const resourceName = z
  .string()
  .refine(isResourceName, { error: "must be an extended resource name such as vhostuser/sockets" });
