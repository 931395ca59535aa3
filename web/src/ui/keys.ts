const IS_APPLE = /Mac|iP(?:hone|ad)/.test(navigator.userAgent);

/** Name of the command key on this machine's keyboard. */
export const COMMAND_KEY = IS_APPLE ? "⌘" : "Ctrl";

/** True if the command key is pressed, and no other modifier. */
export function isCommand(event: KeyboardEvent): boolean {
  const [command, other] = IS_APPLE ? [event.metaKey, event.ctrlKey] : [event.ctrlKey, event.metaKey];
  return command && !other && !event.altKey && !event.shiftKey;
}
