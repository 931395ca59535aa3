/** Name of the command key on this machine's keyboard. */
export const COMMAND_KEY = /Mac|iP(?:hone|ad)/.test(navigator.userAgent) ? "⌘" : "Ctrl";
