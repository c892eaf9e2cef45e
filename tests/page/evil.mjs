/** Markup that calls `pwned()` if the browser interprets it. */
export const EVIL = `"'><img src=x onerror=pwned()><script>pwned()</script><a href=javascript:pwned()>&lt;`;
