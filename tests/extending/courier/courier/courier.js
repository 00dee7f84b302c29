import { call, h, on, onReset, replace } from "../build.js";

export function mount(root) {
  const load = async () => {
    const rounds = await call("courier/rounds");
    replace(root, h("ul", {}, rounds.map(({ run, state }) => h("li", {}, `${run}: ${state}`))));
  };
  on("run", load);
  onReset(load);
  return load();
}
