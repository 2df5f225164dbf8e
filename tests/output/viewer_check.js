// Runs the script of a page without a browser: a canvas that notes what is drawn, a slider that is moved, a button that is
// pressed. Prints as JSON what was drawn at the first and the last time, and what is in the picture.
"use strict";
const fs = require("fs"), vm = require("vm");
const page = fs.readFileSync(process.argv[2], "utf8");
const data = page.match(/<script id="data"[^>]*>([\s\S]*?)<\/script>/)[1];
const script = page.match(/<script>([\s\S]*?)<\/script>/)[1];
const drawn = { fills: 0, strokes: 0, texts: [], bad: 0 };
const numbers = values => values.forEach(v => { if (typeof v === "number" && !Number.isFinite(v)) drawn.bad += 1; });
const pen = {
  fillRect: (...v) => numbers(v), strokeRect: (...v) => numbers(v), beginPath() {}, closePath() {}, arc: (...v) => numbers(v),
  moveTo: (...v) => numbers(v), lineTo: (...v) => numbers(v), fill() { drawn.fills += 1; }, stroke() { drawn.strokes += 1; },
  fillText(text, ...v) { drawn.texts.push(text); numbers(v); },
};
const elements = {};
function element(id) {
  const sizes = { scene: [820, 560], curves: [420, 620] }[id] || [0, 0];
  elements[id] = elements[id] || {
    width: sizes[0], height: sizes[1], value: id === "speed" ? "1" : "0", checked: id !== "follow", textContent: id === "data" ? data : "",
    heard: {}, style: {}, addEventListener(kind, what) { this.heard[kind] = what; }, getContext: kind => kind === "2d" ? pen : null,  // no WebGL here
  };
  return elements[id];
}
const waiting = [];
const world = { document: { getElementById: element }, requestAnimationFrame: f => waiting.push(f), performance: { now: () => 0 } };
const context = vm.createContext(world);
const viewer = vm.runInContext(script + ";viewer", context);
const content = viewer.read(data), last = content.times.length - 1, view = { ...content.view, forces: true, friction: true, joints: true };
const first = elements.now.textContent;
elements.time.value = String(last);
elements.time.heard.input();
const moved = elements.now.textContent;
elements.play.heard.click();  // from the start again
let pictures = 0;
for (let now = 0; waiting.length; now += 1000 / 30) { waiting.shift()(now); pictures += 1; }
for (const [id, kind] of [["follow", "change"], ["friction", "change"], ["forces", "change"]]) { elements[id].checked = !elements[id].checked; elements[id].heard[kind](); }
elements.scene.heard.pointermove({ buttons: 1, movementX: 5, movementY: -5 });
elements.scene.heard.wheel({ deltaY: 100, preventDefault() {} });
const at = frame => viewer.picture(content, frame, view, [820, 560]);
const told = { first, moved, played: elements.now.textContent, pictures, drawn };
console.log(JSON.stringify({ ...told, start: at(0), end: at(last) }));
