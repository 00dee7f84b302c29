// Before anything is drawn: what a browser lacks that the page needs is said, instead of an empty page;
// then light or dark, as a person has chosen, else as their system is. Read by old browsers, too.
(function () {
  function lacks() {
    try {
      localStorage.setItem("moothall-studio-probe", "1");
      localStorage.removeItem("moothall-studio-probe");
    } catch (error) {
      return "The studio needs the storage of this browser, which is turned off for this address.";
    }
    if ([].findLast && window.HTMLDialogElement && window.ResizeObserver && "".replaceAll && "noModule" in document.createElement("script")) return "";
    return "This browser is too old for the studio: it needs Chrome or Edge 97, Firefox 104, Safari 15.4, or a later one.";
  }
  function say(text) {
    var told = document.createElement("p");
    told.setAttribute("role", "alert");
    told.textContent = text;
    document.body.insertBefore(told, document.body.firstChild);
  }
  var missing = lacks();
  if (missing) {
    addEventListener("DOMContentLoaded", function () { say(missing); });
    return;
  }
  // A script that cannot be loaded or read leaves the page as it is.
  addEventListener("error", function (event) {
    if (event.target && event.target.tagName === "SCRIPT") say("A part of the studio could not be loaded: load the page again.");
  }, true);
  var system = matchMedia("(prefers-color-scheme: dark)");
  function apply() {
    var chosen = localStorage.getItem("moothall-studio");
    document.documentElement.classList.toggle("dark", chosen ? chosen === "dark" : system.matches);
  }
  apply();
  if (system.addEventListener) system.addEventListener("change", apply);
})();
