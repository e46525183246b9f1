"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const frames = JSON.parse(document.getElementById("frames").textContent);
  const plots = [...document.querySelectorAll(".plot")];

  // Plotly's colours are no CSS: text and grid follow the page by hand.
  const theme = () => {
    const style = getComputedStyle(document.documentElement);
    const [ink, grid, line] = ["--ink", "--grid", "--line"].map((name) => style.getPropertyValue(name).trim());
    const axis = { color: ink, gridcolor: grid, linecolor: line };
    return { ink, axis };
  };
  const themed = (layout) => {
    const { ink, axis } = theme();
    return {
      ...layout,
      font: { ...layout.font, color: ink },
      xaxis: { ...layout.xaxis, ...axis },
      yaxis: { ...layout.yaxis, ...axis },
    };
  };
  const draw = () =>
    Promise.all(
      plots.map((plot) => {
        const { data, layout } = figures[plot.dataset.figure];
        const size = { width: plot.clientWidth, autosize: false };
        return Plotly.react(plot, data, { ...themed(layout), ...size }, { displayModeBar: false });
      }),
    );
  draw().then(() => document.documentElement.setAttribute("data-ready", ""));
  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(draw, 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  matchMedia("print").addEventListener("change", draw);
  addEventListener("beforeprint", draw);
  addEventListener("afterprint", draw);

  if (!frames.length) return;
  const find = (selector) => document.querySelector(`#gallery ${selector}`);
  const [stage, caption, layer, visit] = [".stage", ".caption", "#layer", "#visit"].map(find);
  let frame = frames[0];

  // The layers of a frame at a visit: the image, then what each run made of it.
  const layers = () => {
    const shown = frame.image ? [{ name: "image", src: frame.image, text: "" }] : [];
    const number = rounds()[visit.value];
    for (const { run, visits } of frame.layers) {
      const found = visits[number];
      if (found) shown.push({ name: run, src: found.picture, text: found.route });
    }
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
  };
  layer.addEventListener("input", show);
  visit.addEventListener("input", show);
  show();
})();
