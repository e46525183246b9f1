"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const token = location.hash.slice(1);
  const length = 1200; // as many frames as the server remembers
  const colours = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#b279a2", "#72b7b2", "#eeca3b",
    "#9d755d", "#ff9da6", "#bab0ac"];
  let known = 0;
  let timeline = [];
  let paused = false;

  const draw = () => {
    const canvas = find("timeline");
    const pen = canvas.getContext("2d");
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const width = canvas.width / Math.max(timeline.length, 60);
    timeline.forEach((expert, i) => {
      pen.fillStyle = colours[expert % colours.length];
      pen.fillRect(i * width, 0, Math.ceil(width), canvas.height);
    });
  };
  const experts = (k) => {
    if (find("which").length === k) return;
    const names = [...Array(k).keys()];
    find("which").replaceChildren(...names.map((i) => new Option(i, i)));
    find("legend").replaceChildren(
      ...names.map((i) => {
        const entry = document.createElement("span");
        const box = document.createElement("i");
        box.style.background = colours[i % colours.length];
        entry.append(box, `expert ${i}`);
        return entry;
      }),
    );
  };
  const show = (state) => {
    if (state.frame < known) timeline = []; // the server began anew
    timeline = [...timeline, ...state.timeline].slice(-length);
    if (state.frame !== known) find("picture").src = `/frame/${find("overlay").checked ? "overlay" : "image"}.jpg?n=${state.frame}`;
    known = state.frame;
    paused = state.paused;
    find("frame").textContent = state.frame;
    find("expert").textContent = timeline.length ? timeline[timeline.length - 1] : "-";
    find("k").textContent = state.k;
    find("fps").textContent = state.fps.toFixed(1);
    find("status").textContent = !state.running ? "ended" : paused ? "adaptation paused" : "adapting";
    find("pause").textContent = paused ? "resume adaptation" : "pause adaptation";
    experts(state.k);
    draw();
    find("messages").replaceChildren(
      ...[...state.messages].reverse().map((text) => {
        const line = document.createElement("li");
        line.textContent = text;
        return line;
      }),
    );
  };
  const look = async () => {
    try {
      show(await (await fetch(`/state?since=${known}`)).json());
    } catch (error) {
      find("status").textContent = "the server does not answer";
    }
    setTimeout(look, 300);
  };
  const act = async (wish) => {
    const headers = { "Content-Type": "application/json", "X-Token": token };
    const answer = await fetch("/act", { method: "POST", headers, body: JSON.stringify(wish) });
    const { error } = await answer.json();
    find("answer").textContent = error || "";
  };
  find("overlay").addEventListener("change", () => {
    find("picture").src = `/frame/${find("overlay").checked ? "overlay" : "image"}.jpg?n=${known}`;
  });
  find("pause").addEventListener("click", () => act({ action: paused ? "resume" : "pause" }));
  find("save").addEventListener("click", () => act({ action: "save" }));
  find("reset").addEventListener("click", () => act({ action: "reset", expert: Number(find("which").value) }));
  look();
})();
