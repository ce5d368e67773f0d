import type { Client } from "./index.js";

export * from "./index.js";
export function localClient(options?: { env?: Record<string, string | undefined> }): Promise<Client>;
