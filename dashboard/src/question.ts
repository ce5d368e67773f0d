/** Asks before something is done that cannot be undone. */

import { element } from "./dom";

/** Whether the person means it. */
export function confirmCancel(job: string): Promise<boolean> {
  const dialog = element("question", HTMLDialogElement);
  element("question-title", HTMLElement).textContent = `Cancel job ${job}?`;
  element("question-detail", HTMLElement).textContent =
    "It ends at its next step and makes no version. It cannot be resumed.";
  const yes = element("question-yes", HTMLButtonElement);
  yes.textContent = "Cancel the job";
  yes.onclick = () => dialog.close("yes");
  element("question-no", HTMLButtonElement).onclick = () => dialog.close("no");
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    const close = (): void => resolve(dialog.returnValue === "yes");
    dialog.addEventListener("close", close, { once: true });
  });
}
