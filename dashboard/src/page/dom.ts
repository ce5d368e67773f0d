/** Builds elements from data as text, never as markup, and patches the page to look like them. */

export type Child = Node | string | null | false | Child[];
/** `onclick` and the like are functions; all else becomes text. */
export type Attributes = Record<string, string | number | boolean | null | Handler>;
// One record has handlers of all kinds of events.
export type Handler = (event: any) => void;

const HANDLERS = [
  "onclick",
  "onchange",
  "oninput",
  "onsubmit",
  "onkeydown",
  "onpointermove",
  "onpointerdown",
  "onlostpointercapture",
  "onpointerenter",
  "onpointerleave",
  "onfocus",
  "onblur",
  "ondragover",
  "ondragleave",
  "ondrop",
  "onpaint",
] as const;

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Attributes that are null or false are left out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Draws every canvas whose `onpaint` is set, once the page is patched. */
export function paint(root: Element): void {
  for (const canvas of root.querySelectorAll("canvas")) {
    (canvas as { onpaint?: (canvas: HTMLCanvasElement) => void }).onpaint?.(canvas);
  }
}

/** The element of index.html or of a view with this id. */
export function element<E extends Element>(id: string, kind: abstract new () => E): E {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} with id ${id}`);
  return found;
}

function filled<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") Object.assign(element, { [name]: value });
    else if (value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(element, children);
  return element;
}

function append(element: Element, children: Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child !== null && child !== false) element.append(child);
  }
}

/**
 * Makes `present` look like `wanted`, keeping the nodes that both have: focus, selection and
 * transitions survive. Children with a `data-key` are told apart by it, others by their order.
 */
export function patch(present: Element, wanted: Element): void {
  patchAttributes(present, wanted);
  removeUnwanted(present, wanted);
  const keyed = new Map([...present.children].map((child) => [keyOf(child), child]));
  let cursor = present.firstChild;
  for (const next of [...wanted.childNodes]) {
    const match = counterpart(next, cursor, keyed);
    if (match === null) {
      present.insertBefore(next, cursor);
      continue;
    }
    if (match === cursor) cursor = cursor.nextSibling;
    else present.insertBefore(match, cursor);
    if (match instanceof Element) patch(match, next as Element);
    else if (match.nodeValue !== next.nodeValue) match.nodeValue = next.nodeValue;
  }
  while (cursor !== null) {
    const after: ChildNode | null = cursor.nextSibling;
    cursor.remove();
    cursor = after;
  }
}

/** Removals go first, so that no remaining node must move: a moved node loses its focus. */
function removeUnwanted(present: Element, wanted: Element): void {
  const kept = new Set([...wanted.children].map(keyOf));
  for (const child of [...present.children]) {
    if (!kept.has(keyOf(child))) child.remove();
  }
}

function counterpart(
  next: ChildNode,
  cursor: ChildNode | null,
  keyed: Map<string | null, Element>,
): ChildNode | null {
  const key = keyOf(next);
  const found = key === null ? cursor : (keyed.get(key) ?? null);
  const fits = found !== null && found.nodeName === next.nodeName && keyOf(found) === key;
  return fits ? found : null;
}

function keyOf(node: ChildNode): string | null {
  return node instanceof Element ? node.getAttribute("data-key") : null;
}

function patchAttributes(present: Element, wanted: Element): void {
  // A field that nobody is changing shows what is new, even if something else was typed there before.
  const isField = present instanceof HTMLInputElement;
  const isLeft = isField && present.type === "search" && present !== document.activeElement;
  const isUntouched = isField && (isLeft || present.value === present.getAttribute("value"));
  const isUnpressed = isField && present.checked === present.hasAttribute("checked");
  const handlers = present as unknown as Record<string, unknown>;
  for (const name of HANDLERS) handlers[name] = (wanted as unknown as Record<string, unknown>)[name];
  for (const name of present.getAttributeNames()) {
    // What the user has opened stays open, and a heading that was given the focus keeps it.
    const isKept = name === "open" || (name === "tabindex" && present === document.activeElement);
    if (!wanted.hasAttribute(name) && !isKept) present.removeAttribute(name);
  }
  for (const { name, value } of [...wanted.attributes]) {
    if (present.getAttribute(name) === value) continue;
    present.setAttribute(name, value);
    if (name === "value" && isUntouched) present.value = value;
  }
  if (isUnpressed) present.checked = present.hasAttribute("checked");
}
