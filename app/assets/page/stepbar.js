/* The step bar: slider over recorded steps, pins, learning-rate phases, play. */
(() => {
  const ds = (window.depthscope = window.depthscope || {});
  const { make, fill } = ds;
  let playing = null;
  let dragging = false;

  const percent = (step, end) => `${(100 * Math.min(Math.max(step / (end || 1), 0), 1)).toFixed(3)}%`;

  const pin = (step, end) => make("button", {
    type: "button", class: "pin", "data-action": "unpin", "data-step": step, style: { left: percent(step, end) },
    "aria-label": `Unpin step ${step}`, title: "Unpin",
  }, make("span", { class: "pin-label" }, ds.count(step)), make("span", { class: "pin-mark" }));

  /** "newest of hires": the step is the last one of a run that has less than the others. */
  const newestOf = (view) => {
    if (view.following) return view.runs.some((run) => run.status === "live") ? "newest" : "last";
    const short = view.runs.filter((run) => run.last_step === view.shownStep && run.last_step < view.last);
    return short.length ? `newest of ${short.map((run) => run.name).join(", ")}` : "";
  };

  const phases = (view) => {
    const own = view.runs.find((run) => run.id === view.base);
    const known = own ? (ds.timelines[own.id] || {}).phases || [] : [];
    return known.filter((phase) => phase.start < view.end).map((phase) => {
      const stop = Math.min(phase.stop, view.end);
      return make("span", {
        class: "phase", style: { left: percent(phase.start, view.end), width: percent(stop - phase.start, view.end) },
      }, make("span", {}, phase.name));
    });
  };

  const draw = (view) => {
    const track = document.getElementById("slider");
    if (!track) return;
    const { end, shownStep, last } = view;
    const some = view.runs.length > 0;
    track.setAttribute("aria-valuemax", String(last));
    track.setAttribute("aria-valuenow", String(shownStep));
    track.setAttribute("aria-valuetext", `step ${shownStep} of ${last}`);
    const width = track.clientWidth || 800;
    fill(document.getElementById("slider-ticks"), some ? ds.barTicks(view.runs, end, width).map((step, i) =>
      make("span", { class: i % 5 === 0 ? "tick tick-long" : "tick", style: { left: percent(step, end) } })) : []);
    fill(document.getElementById("slider-pins"), view.pins.map((step) => pin(step, end)));
    fill(document.getElementById("slider-phases"), phases(view));
    document.getElementById("slider-past").style.width = some ? percent(shownStep, end) : "0";
    document.getElementById("slider-thumb").style.left = percent(shownStep, end);
    const label = document.getElementById("slider-label");
    label.style.left = percent(shownStep, end);
    label.classList.toggle("flip", end > 0 && shownStep / end > 0.8);
    fill(label, some ? [make("strong", {}, ds.count(shownStep)), make("span", { class: "note" }, newestOf(view))] : []);
    hideCovered(label);
    const input = document.getElementById("step-input");
    if (document.activeElement !== input) ds.typeInto("step-input", ds.count(shownStep));
    document.getElementById("step-of").textContent = `of ${ds.count(end)}`;
    const pinned = view.pins.includes(shownStep);
    document.getElementById("pin").setAttribute("aria-pressed", pinned ? "true" : "false");
  };
  ds.onChange(draw);
  window.addEventListener("resize", () => draw(ds.resolve()));

  /** The label of the current step wins over pin labels that it would cover. */
  const hideCovered = (label) => {
    const own = label.getBoundingClientRect();
    for (const entry of document.querySelectorAll(".pin-label")) {
      const other = entry.getBoundingClientRect();
      entry.classList.toggle("covered", other.right > own.left - 4 && other.left < own.right + 4);
    }
  };

  ds.goTo = (step) => {
    const view = ds.resolve();
    const nearest = ds.nearestStep(view.runs, Math.min(step, view.last));
    if (nearest === null) return;
    const follow = nearest >= view.last && view.runs.some((run) => run.status === "live");
    ds.change({ step: follow ? null : nearest });
  };
  /** Go to the step that was typed; what is no step is refused and taken back. */
  ds.takeStep = (box) => {
    const text = box.value.trim();
    const { last, runs } = ds.resolve();
    const step = /^\d{1,15}$/.test(text.replaceAll(",", "")) ? Number(text.replaceAll(",", "")) : null;
    box.blur();
    if (step === null) ds.notify(`“${text}” is no step: type a whole number from 0 to ${ds.count(last)}.`);
    else if (step > last && runs.length) ds.notify(`There is no step ${ds.count(step)} yet: the last is ${ds.count(last)}.`);
    if (step !== null) ds.goTo(step);
    ds.tell();
  };
  document.addEventListener("focusout", (event) => {
    if (event.target.id === "step-input") window.requestAnimationFrame(() => ds.tell());
  });
  ds.goBy = (by) => {
    const view = ds.resolve();
    ds.goTo(ds.stepsAway(view.runs, view.shownStep, by));
  };
  ds.pinStep = () => {
    const { pins, shownStep } = ds.resolve();
    const next = pins.includes(shownStep) ? pins.filter((step) => step !== shownStep) : [...pins, shownStep];
    ds.change({ pins: next.sort((a, b) => a - b).slice(-5) });
  };
  ds.unpin = (step) => ds.change({ pins: ds.state.pins.filter((pinned) => pinned !== step) });

  const stop = () => {
    window.clearInterval(playing);
    playing = null;
    showPlaying();
  };
  const showPlaying = () => {
    const play = document.getElementById("play");
    play.setAttribute("aria-label", playing ? "Pause" : "Play");
    fill(play, [ds.icon(playing ? "pause" : "play")]);
  };
  ds.play = () => {
    if (playing) return stop();
    const view = ds.resolve();
    if (view.shownStep >= view.last) ds.goTo(0);
    playing = window.setInterval(() => {
      const now = ds.resolve();
      if (!ds.settled()) return;
      const next = ds.stepAfter(now.runs, now.shownStep + 1);
      if (next === null || now.shownStep >= now.last) stop();
      else ds.change({ step: next });
    }, 180);
    showPlaying();
  };

  const stepAt = (event) => {
    const box = document.getElementById("slider").getBoundingClientRect();
    return Math.round(((event.clientX - box.left) / box.width) * ds.resolve().end);
  };
  document.addEventListener("pointerdown", (event) => {
    const slider = event.target.closest?.("#slider");
    if (!slider || event.target.closest(".pin")) return;
    dragging = true;
    slider.setPointerCapture?.(event.pointerId);
    ds.goTo(stepAt(event));
  });
  document.addEventListener("pointermove", (event) => { if (dragging) ds.goTo(stepAt(event)); });
  document.addEventListener("pointerup", () => { dragging = false; });
})();
