/** Markup that says so when a browser takes it for more than text. */
export const EVIL = `"'><img src=x onerror=pwned()><script>pwned()</script><a href=javascript:pwned()>&lt;`;
