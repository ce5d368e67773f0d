/** Waits that can be aborted. */

/** Resolves after the time, or when the signal is aborted. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal?.addEventListener("abort", end);
  });
}

/** Resolves once the page is visible. */
export function visible(): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    look();
  });
}

/** Aborts a controller after a time without a sign of life. first: until there is one at all. */
export class Watchdog {
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly milliseconds: number,
    private readonly controller: AbortController,
    first: number,
  ) {
    this.#wait(first);
  }

  alive(): void {
    this.stop();
    this.#wait(this.milliseconds);
  }

  #wait(milliseconds: number): void {
    this.#timer = setTimeout(() => this.controller.abort(new DOMException("no sign of life", "TimeoutError")), milliseconds);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
