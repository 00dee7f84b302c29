// Light or dark before anything is drawn: as a person has chosen, else as their system is.
{
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const chosen = localStorage.getItem("moothall-studio");
    document.documentElement.classList.toggle("dark", chosen ? chosen === "dark" : system.matches);
  };
  apply();
  system.addEventListener("change", apply);
}
