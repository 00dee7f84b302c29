// How far research is: made of the entries of its run, one by one.

const STEPS = new Set(["plan", "research", "update", "narrate", "evaluate"]);
const LISTED = 500; // resources: those found last; all are counted
const TITLE = 300;
const isOpen = (task) => ["waiting", "running"].includes(task.state);

export class Progress {
  constructor(run) {
    Object.assign(this, { run, last: 0, iteration: 1, step: "plan", narrative: null, over: null });
    [this.generated, this.remarks, this.heard] = [[], [], []];
    this.objectives = new Map(); // by topic
    this.tasks = new Map(); // by iteration and number
    this.resources = new Map(); // by address, the last found last
    this.asking = new Map(); // models that are asked, by the key of the call
  }

  objective(topic) {
    if (!this.objectives.has(topic)) this.objectives.set(topic, { topic, expertise: 0, reached: [] });
    return this.objectives.get(topic);
  }

  want(topics) {
    topics.filter((each) => each.trim()).forEach((each) => this.objective(each));
  }

  take({ sequence, kind, data, why }) {
    this.last = sequence;
    this.over = null;
    const about = data.about || {};
    if (kind === "begun" && !this.objectives.size) this.want(data.task.split("\n"));
    else if (kind === "heard") this.heard.push(data.content);
    else if (kind === "state") {
      [this.iteration, this.step] = [data.state.iteration + 1, "plan"];
      for (const each of this.tasks.values()) if (isOpen(each)) Object.assign(each, { state: "failed", error: "it could not be called: its arguments are wrong" });
    } else if (kind === "over") this.over = { reason: data.report?.stop_reason || data.reason, detail: data.detail || "", why };
    else if ("model" in about) this.asked(kind, data.key, about.model);
    else if ("action" in about) this.called(kind, data, about);
    else if (kind === "ended" && data.result) this.ended(sequence, data.key, data.result);
  }

  asked(kind, key, model) {
    if (kind !== "started") return void this.asking.delete(key);
    this.asking.set(key, model || "the model");
    const step = key.split(".")[1];
    if (STEPS.has(step)) this.step = step;
  }

  called(kind, data, about) {
    const task = this.tasks.get(`${this.iteration}.${about.id.split("_").pop()}`);
    if (!task) return;
    this.step = "research";
    if (kind === "started") task.state = "running";
    else if (kind === "failed") Object.assign(task, { state: "failed", error: data.error });
    else {
      const { result, error = null } = data.result?.result || {};
      Object.assign(task, { state: error === null ? "ended" : "failed", error });
      this.found(task, result?.resources || []);
    }
    if (![...this.tasks.values()].some(isOpen)) this.step = "narrate"; // Update takes no time
  }

  found(task, resources) {
    [task.found, task.read] = [resources.length, resources.filter((each) => each.visited).length];
    for (const { url, description, visited } of resources) {
      const known = this.resources.get(url);
      this.resources.delete(url);
      this.resources.set(url, { url, title: (description || known?.title || "").slice(0, TITLE), visited: Boolean(visited || known?.visited) });
    }
  }

  // A step of the iteration has ended.
  ended(at, key, result) {
    const iteration = parseInt(key), step = key.slice(key.indexOf(".") + 1);
    if (step === "plan") {
      this.step = "research";
      result.tasks.forEach(({ tool, args, reasoning }, n) => this.tasks.set(`${iteration}.${n + 1}`, { iteration, tool, args, why: reasoning, state: "waiting", error: null, found: 0, read: 0 }));
    } else if (step === "narrate") {
      this.step = "evaluate";
      this.narrative = { at, iteration, citations: result.citations.length, unsupported: result.unsupported, uncited: result.uncited };
    } else if (step === "evaluate") {
      for (const { topic, expertise } of result.objectives) {
        const objective = this.objective(topic);
        objective.expertise = expertise;
        objective.reached.push(expertise);
        objective.estimated = Boolean(result.estimated); // by rules: it does not tell right from wrong
      }
      this.generated = result.generated;
      if (result.remark) this.remarks.push({ iteration, text: result.remark });
    }
  }

  // All of it, as it is shown; of a run that is not under way no step is.
  told(isRunning) {
    const now = (task) => (isOpen(task) && !isRunning ? { ...task, state: "not done" } : task);
    const resources = [...this.resources.values()];
    return {
      ...this, step: isRunning ? this.step : null, asking: isRunning ? [...this.asking.values()][0] ?? null : null, done: this.iteration - 1,
      objectives: [...this.objectives.values()], tasks: [...this.tasks.values()].map(now), resources: resources.slice(-LISTED),
      found: resources.length, read: resources.filter((each) => each.visited).length,
    };
  }
}
