/** How this machine's keyboard calls the key of commands. */
export const COMMAND_KEY = /Mac|iP(?:hone|ad)/.test(navigator.userAgent) ? "⌘" : "Ctrl";
