"use strict";
(async () => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const figures = read("figures");
  const frames = read("frames");
  const plots = [...document.querySelectorAll(".plot")];

  // Plotly's script is packed, since it is most of the page.
  const unpack = async () => {
    const packed = document.getElementById("plotly");
    const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    packed.replaceWith(script);
  };

  // Plotly's colors are no CSS: text, grid and heatmaps follow the page by hand.
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const themed = (layout) => {
    const axis = { color: color("--soft"), gridcolor: color("--grid"), linecolor: color("--line") };
    return {
      ...layout,
      font: { ...layout.font, color: color("--ink") },
      xaxis: { ...layout.xaxis, ...axis },
      yaxis: { ...layout.yaxis, ...axis },
    };
  };
  const shaded = (trace) =>
    trace.type === "heatmap" ? { ...trace, colorscale: [[0, color("--low")], [1, color("--high")]] } : trace;
  const draw = (plot) => {
    const { data, layout } = figures[plot.dataset.figure];
    const size = { width: plot.clientWidth, autosize: false };
    return Plotly.react(plot, data.map(shaded), { ...themed(layout), ...size }, { displayModeBar: false });
  };
  const drawAll = () => Promise.all(plots.map(draw));
  const chart = async () => {
    await unpack();
    await drawAll();
    let waiting;
    addEventListener("resize", () => {
      clearTimeout(waiting);
      waiting = setTimeout(drawAll, 150);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    matchMedia("print").addEventListener("change", drawAll);
    addEventListener("beforeprint", drawAll);
    addEventListener("afterprint", drawAll);
    for (const button of document.querySelectorAll(".legend button")) {
      button.addEventListener("click", () => {
        const plot = button.closest(".chart").querySelector(".plot");
        const trace = figures[plot.dataset.figure].data[button.dataset.trace];
        trace.visible = trace.visible === false;
        button.setAttribute("aria-pressed", String(trace.visible));
        draw(plot);
      });
    }
  };

  const browse = () => {
    const find = (selector) => document.querySelector(`#gallery ${selector}`);
    const [stage, caption, layer, visit] = [".stage", ".caption", "#layer", "#visit"].map(find);
    let frame = frames[0];

    // The layers of a frame at a visit: the image, what each run made of it, and the ground truth.
    const layers = () => {
      const shown = frame.image ? [{ name: "image", src: frame.image, text: "" }] : [];
      const number = rounds()[visit.value];
      for (const { run, visits } of frame.layers) {
        const found = visits[number];
        if (found) shown.push({ name: run, src: found.picture, text: found.note });
      }
      if (frame.truth) shown.push({ name: "ground truth", src: frame.truth, text: "" });
      return shown;
    };
    const rounds = () =>
      [...new Set(frame.layers.flatMap(({ visits }) => Object.keys(visits)))].sort((a, b) => a - b);
    const buttons = (place, names, chosen, choose) => {
      place.replaceChildren(
        ...names.map((name, i) => {
          const button = document.createElement("button");
          button.type = "button";
          button.textContent = name;
          button.setAttribute("aria-pressed", String(i === chosen));
          button.addEventListener("click", () => choose(i));
          return button;
        }),
      );
    };
    const show = () => {
      visit.max = rounds().length - 1;
      const all = layers();
      layer.max = all.length - 1;
      const place = Math.min(Number(layer.value), all.length - 1);
      const below = all[Math.floor(place)];
      const above = all[Math.ceil(place)];
      const pictures = [below, above].map(({ src, name }) => {
        const picture = new Image();
        picture.src = src;
        picture.alt = name;
        return picture;
      });
      pictures[1].style.opacity = place - Math.floor(place);
      stage.replaceChildren(...pictures);
      const nearest = all[Math.round(place)];
      find("#visit-number").textContent = rounds()[visit.value];
      caption.textContent = [`${frame.domain}, ${frame.name}`, nearest.name, nearest.text]
        .filter(Boolean)
        .join(" · ");
      buttons(find(".frames"), frames.map(({ domain }) => domain), frames.indexOf(frame), (i) => {
        frame = frames[i];
        show();
      });
      buttons(find(".layers"), all.map(({ name }) => name), Math.round(place), (i) => {
        layer.value = i;
        show();
      });
      find(".classes").replaceChildren(
        ...frame.classes.map(([name, rgb]) => {
          const entry = document.createElement("li");
          const box = document.createElement("i");
          box.style.background = `rgb(${rgb})`;
          entry.append(box, name);
          return entry;
        }),
      );
    };
    layer.addEventListener("input", show);
    visit.addEventListener("input", show);
    show();
    // Begin with labels, of the last run and visit.
    visit.value = visit.max;
    show();
    layer.value = layers().length - (frame.truth ? 2 : 1);
    show();
  };

  if (frames.length) browse();
  await chart();
  document.documentElement.setAttribute("data-ready", "");
})();
