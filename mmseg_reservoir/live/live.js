"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const token = location.hash.slice(1);
  const length = 1200; // as many frames as the server remembers
  const colors = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#b279a2", "#72b7b2", "#eeca3b",
    "#9d755d", "#ff9da6", "#bab0ac"];
  const color = (expert) => colors[expert % colors.length];
  const percent = (share) => `${Math.round(100 * share)} %`;
  const images = (count) => `${count} image${count === 1 ? "" : "s"}`;
  let newest = 0;
  let timeline = [];
  let paused = false;

  // One bar for each run of frames of one expert, with its number where it fits, because colors can look alike.
  const draw = () => {
    const canvas = find("timeline");
    canvas.width = canvas.clientWidth * devicePixelRatio;
    canvas.height = canvas.clientHeight * devicePixelRatio;
    const pen = canvas.getContext("2d");
    const width = canvas.width / Math.max(timeline.length, 60);
    pen.font = `600 ${13 * devicePixelRatio}px system-ui, sans-serif`;
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    for (let start = 0, end; start < timeline.length; start = end) {
      const expert = timeline[start];
      for (end = start; timeline[end] === expert; end++);
      pen.fillStyle = color(expert);
      pen.fillRect(start * width, 0, Math.ceil((end - start) * width), canvas.height);
      if ((end - start) * width < 12 * devicePixelRatio) continue;
      pen.fillStyle = "#000";
      pen.fillText(expert, ((start + end) * width) / 2, canvas.height / 2);
    }
  };
  const entry = (background, name) => {
    const item = document.createElement("li");
    const box = document.createElement("i");
    box.style.background = background;
    item.append(box, name);
    return item;
  };
  const experts = (k) => {
    if (find("which").length === k) return;
    const names = [...Array(k).keys()];
    find("which").replaceChildren(...names.map((i) => new Option(`expert ${i}`, i)));
    find("legend").replaceChildren(...names.map((i) => entry(color(i), `expert ${i}`)));
  };
  const say = (text, kind) => {
    find("status").textContent = text;
    find("status").dataset.kind = kind;
  };
  const alarm = ({ alarms, trust }) => {
    find("alarm").dataset.kind = trust < 1 ? "bad" : "";
    if (alarms === undefined) return "not watched";
    if (!alarms) return "no alarm";
    return `${alarms} alarm${alarms === 1 ? "" : "s"}, ${percent(trust)} of updates kept`;
  };
  const alignment = ({ reach, aligned }) => {
    if (reach === undefined) return "none";
    return `reach ${reach} by ${images(aligned)}`;
  };
  const showStream = ({ name, total, classes }, frame) => {
    document.title = name;
    find("name").textContent = name;
    find("total").textContent = total === null ? "" : ` of ${total}`;
    find("progress").hidden = total === null;
    find("progress").value = total === null ? 0 : frame / total;
    if (find("classes").childElementCount === Object.keys(classes).length) return;
    const entries = Object.entries(classes);
    find("classes").replaceChildren(...entries.map(([name, rgb]) => entry(`rgb(${rgb})`, name)));
  };
  const show = (state) => {
    if (state.frame < newest) timeline = []; // the server was started again
    timeline = [...timeline, ...state.timeline].slice(-length);
    if (state.frame !== newest) find("picture").src = `/frame/${find("overlay").checked ? "overlay" : "image"}.jpg?n=${state.frame}`;
    newest = state.frame;
    paused = state.paused;
    showStream(state.stream, state.number);
    find("frame").textContent = state.number;
    find("k").textContent = state.k;
    find("fps").textContent = state.fps.toFixed(1);
    if (!state.running) say("ended", "");
    else if (paused) say("adaptation paused", "bad");
    else say("adapting", "good");
    find("pause").textContent = paused ? "resume adaptation" : "pause adaptation";
    experts(state.k);
    if (timeline.length) {
      const expert = timeline[timeline.length - 1];
      find("expert").textContent = expert;
      find("color").style.background = color(expert);
      find("confidence").textContent = state.confidence === null ? "-" : percent(state.confidence);
      find("alarm").textContent = alarm(state.expert);
      find("alignment").textContent = alignment(state.expert);
    }
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
      show(await (await fetch(`/state?since=${newest}`)).json());
    } catch (error) {
      say("the server does not answer", "bad");
    }
    setTimeout(look, 300);
  };
  const act = async (request) => {
    const headers = { "Content-Type": "application/json", "X-Token": token };
    const answer = await fetch("/act", { method: "POST", headers, body: JSON.stringify(request) });
    const { error } = await answer.json();
    find("answer").textContent = error || "";
  };
  find("overlay").addEventListener("change", () => {
    find("picture").src = `/frame/${find("overlay").checked ? "overlay" : "image"}.jpg?n=${newest}`;
  });
  find("pause").addEventListener("click", () => act({ action: paused ? "resume" : "pause" }));
  find("save").addEventListener("click", () => act({ action: "save" }));
  find("reset").addEventListener("click", () => {
    const expert = Number(find("which").value);
    if (confirm(`Reset expert ${expert} to the source model?`)) act({ action: "reset", expert });
  });
  if (!token) {
    for (const id of ["pause", "save", "which", "reset"]) find(id).disabled = true;
    find("answer").textContent = "To act, open the whole address that was printed at the start: its end is the key.";
  }
  look();
})();
