// Finds this machine's daemon, as `honed` does: for Node.js.

import { lstat, readFile, stat } from "node:fs/promises";
import http from "node:http";
import { homedir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { Client } from "./index.js";

export * from "./index.js";

const SOCKET_OF_SERVICE = "/run/honed/api.sock";
const OPEN_TO_OTHERS = 0o022;

/**
 * A client of this machine's daemon: HONED_URL and HONED_TOKEN if they are set, else its Unix socket,
 * where the kernel tells who asks. Where there is none: 127.0.0.1 and the data folder's token.
 */
export async function localClient({ env = process.env } = {}) {
  const { HONED_URL: url, HONED_TOKEN: token } = env;
  if (url) return new Client({ url, token });
  const folder = dataDir(env);
  if (process.platform === "linux") {
    const socket = await ownSocket(env.HONED_SOCKET ? [expanded(env.HONED_SOCKET)] : [path.join(folder, "api.sock"), SOCKET_OF_SERVICE]);
    if (!socket) throw new Error("no daemon of this machine was found: start honed serve, or set HONED_URL and HONED_TOKEN");
    return new Client({ url: "http://localhost", token, fetch: fetchBy(socket) });
  }
  const own = token ?? (await readFile(path.join(folder, "admin.token"), "ascii")).trim();
  return new Client({ token: own });
}

function dataDir(env) {
  if (env.HONED_DATA_DIR) return expanded(env.HONED_DATA_DIR);
  if (process.platform === "win32") return path.join(env.LOCALAPPDATA ?? path.join(homedir(), "AppData", "Local"), "honed");
  if (process.platform === "darwin") return path.join(homedir(), "Library", "Application Support", "honed");
  return path.join(env.XDG_DATA_HOME || path.join(homedir(), ".local", "share"), "honed");
}

/** As the daemon reads it: `~` at the beginning is the home folder. */
function expanded(named) {
  return named.replace(/^~(?=$|[/\\])/, () => homedir());
}

/** The first socket in a folder where nobody else but its owner and root could have put it. */
async function ownSocket(places) {
  for (const place of places) {
    try {
      const [folder, socket] = [await stat(path.dirname(place)), await lstat(place)];
      const trusted = [0, process.geteuid(), folder.uid];
      if (socket.isSocket() && trusted.includes(socket.uid) && !(folder.mode & OPEN_TO_OTHERS)) return place;
    } catch (error) {
      if (!["ENOENT", "EACCES", "ENOTDIR"].includes(error.code)) throw error;
    }
  }
  return null;
}

/** What fetch does, by a Unix socket. */
function fetchBy(socketPath) {
  return async (url, { method, headers, body, signal }) => {
    const encoded = body === undefined ? null : new Response(body);
    const content = encoded && Buffer.from(await encoded.arrayBuffer());
    const kind = encoded?.headers.get("content-type");
    const about = content ? { ...(kind && { "content-type": kind }), "content-length": content.length } : {};
    return new Promise((resolve, reject) => {
      const { pathname, search } = new URL(url);
      const asked = { socketPath, method, path: pathname + search, signal };
      const request = http.request({ ...asked, headers: { ...about, ...headers, host: "localhost" } }, (answer) => {
        const isEmpty = [204, 304].includes(answer.statusCode);
        if (isEmpty) answer.resume();
        resolve(new Response(isEmpty ? null : Readable.toWeb(answer), { status: answer.statusCode, headers: answer.headers }));
      });
      request.on("error", (error) => reject(signal?.aborted ? error : new TypeError("fetch failed", { cause: error })));
      request.end(content);
    });
  };
}
