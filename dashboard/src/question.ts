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
  dialog.showModal();
  return new Promise((resolve) => {
    yes.onclick = () => {
      resolve(true);
      dialog.close();
    };
    element("question-no", HTMLButtonElement).onclick = () => dialog.close();
    // The event comes with the next frame: the question may be asked again by then.
    dialog.onclose = () => {
      if (!dialog.open) resolve(false);
    };
  });
}
