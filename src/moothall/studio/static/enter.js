// Keeps the key of this port, once the token or password was right; the page then loads with it.
localStorage.setItem("moothall-studio-key", document.querySelector("meta[name=moothall-studio-key]").content);
