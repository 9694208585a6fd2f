"use strict";
// What the theme leaves out for screen readers and keyboards: names of the search and of buttons beside code, code and tables that scroll.
(function () {
  function complete() {
    document.querySelectorAll(".md-search:not([aria-label])").forEach((each) => each.setAttribute("aria-label", "Search"));
    document.querySelectorAll("pre > code:not([tabindex]), .md-typeset__scrollwrap:not([tabindex])").forEach((each) => each.setAttribute("tabindex", "0"));
    document.querySelectorAll(".md-code__nav").forEach((each, at) => each.ariaLabel || each.setAttribute("aria-label", "Code " + (at + 1)));
  }
  new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
  complete();
})();
