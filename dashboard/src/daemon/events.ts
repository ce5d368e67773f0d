/** Reads server-sent events from a fetch, since EventSource cannot send the token. */

export interface Frame {
  type: string;
  data: string;
}

/** The parser of WHATWG HTML, section 9.2.6, fed with text as it arrives. */
export class EventParser {
  /** What to send as Last-Event-ID; changes when a block is complete. */
  lastId: string;
  #rest = "";
  #id: string;
  #type = "";
  #data: string[] = [];

  constructor(lastId = "") {
    this.lastId = lastId;
    this.#id = lastId;
  }

  /** The events that the text completes. */
  feed(text: string): Frame[] {
    const frames: Frame[] = [];
    this.#rest += text;
    // A carriage return at the end may be half of a line's end.
    const held = this.#rest.endsWith("\r") ? 1 : 0;
    const lines = this.#rest.slice(0, this.#rest.length - held).split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? "") + (held ? "\r" : "");
    for (const line of lines) {
      if (line === "") this.#dispatch(frames);
      else this.#take(line);
    }
    return frames;
  }

  #take(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#type = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
  }

  #dispatch(frames: Frame[]): void {
    this.lastId = this.#id;
    if (this.#data.length > 0) {
      frames.push({ type: this.#type || "message", data: this.#data.join("\n") });
    }
    this.#type = "";
    this.#data = [];
  }
}

/** Passes on each event until the stream ends. onBytes: called for anything, including comments. */
export async function readEvents(
  body: ReadableStream<Uint8Array>,
  parser: EventParser,
  onEvent: (frame: Frame) => void,
  onBytes: () => void,
): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onBytes();
    for (const frame of parser.feed(value)) onEvent(frame);
  }
}
