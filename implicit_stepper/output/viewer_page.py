"""The page of the viewer: HTML, style and script in one text, which asks nothing of any network.

The script has three parts: `viewer` computes what to draw from the data, a time and a camera, and
knows no page; `solids` draws bodies in space by WebGL, where the browser has it, and `viewer`
sorts their faces where it has not; the rest joins them to the canvas, the slider and the pointer.
"""

PAGE = r"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<title>implicit-stepper</title>
<style>
body { font: 14px sans-serif; margin: 0; color: #222; display: flex; flex-wrap: wrap }
main, aside { padding: 8px } canvas { border: 1px solid #ddd; display: block; touch-action: none }
#stage, #beside { position: relative } #solids { position: absolute; z-index: -1 }
#cursor { position: absolute; left: 0; top: 0; width: 1.5px; height: 100%; background: #d55e00; will-change: transform }
#bar { display: flex; gap: 10px; align-items: center; margin-top: 6px } #time { flex: 1 }
</style></head><body>
<main><div id="stage"><canvas id="solids" width="820" height="560"></canvas>
<canvas id="scene" width="820" height="560"></canvas></div>
<div id="bar"><button id="play">play</button><input id="time" type="range" min="0" value="0" step="1">
<output id="now"></output><label>speed <select id="speed"><option>0.1</option><option>0.25</option><option>0.5</option>
<option selected>1</option><option>2</option></select></label>
<label><input id="follow" type="checkbox">follow</label>
<label><input id="forces" type="checkbox" checked>forces</label>
<label><input id="friction" type="checkbox" checked>friction</label>
<label><input id="joints" type="checkbox" checked>joints</label></div>
<p id="about"></p></main>
<aside><div id="beside"><canvas id="curves" width="420" height="620"></canvas><div id="cursor"></div></div></aside>
<script id="data" type="application/json">@DATA@</script>
<script>
"use strict";
const viewer = (() => {
  const add = (a, b) => a.map((x, i) => x + b[i]), sub = (a, b) => a.map((x, i) => x - b[i]);
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const unit = a => { const n = Math.hypot(...a) || 1; return a.map(x => x / n); };
  function matrix([w, x, y, z]) {
    return [[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]];
  }
  function placed(body, frame) {
    if (!body.poses) return body.vertices;
    const pose = body.poses[frame], r = matrix(pose.slice(3));
    return body.vertices.map(v => [dot(r[0], v) + pose[0], dot(r[1], v) + pose[1], dot(r[2], v) + pose[2]]);
  }
  // the camera looks along -`back` at `target`
  function frameOf(view, width, height) {
    const ca = Math.cos(view.azimuth), sa = Math.sin(view.azimuth);
    const ce = Math.cos(view.elevation), se = Math.sin(view.elevation);
    const back = [ca * ce, sa * ce, se], right = [-sa, ca, 0], up = cross(back, right);
    const eye = add(view.target, back.map(x => x * view.distance)), focal = 1.6 * Math.min(width, height);
    return { back, right, up, eye, focal };
  }
  // to the screen
  function camera(view, width, height) {
    const { back, right, up, eye, focal } = frameOf(view, width, height);
    return p => {
      const d = sub(p, eye), depth = -dot(d, back), scale = focal / Math.max(depth, 1e-3 * view.distance);
      return [width / 2 + scale * dot(d, right), height / 2 - scale * dot(d, up), depth];
    };
  }
  const light = unit([0.35, -0.6, 0.72]);
  function shade(colour, normal) {
    const k = 0.45 + 0.55 * (1 + dot(normal, light)) / 2;
    return "rgb(" + colour.map(c => Math.round(255 * c * k)).join(",") + ")";
  }
  // polygons from back to front, and lines and rings over them, all in pixels; without polygons that are `drawn` elsewhere
  function picture(data, frame, view, size, drawn) {
    const project = camera(view, size[0], size[1]), faces = [], lines = [], rings = [];
    for (const floor of drawn ? [] : data.floors) {
      const points = floor.map(project);
      faces.push({ points, depth: Infinity, colour: "rgb(232,232,226)", edge: "rgb(190,190,185)" });
    }
    for (const body of drawn ? [] : data.bodies) {
      const world = placed(body, frame), screen = world.map(project);
      for (const face of body.faces) {
        const [a, b, c] = face.map(i => world[i]);
        const points = face.map(i => screen[i]);
        const [p, q, r] = points;
        const turn = (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]);
        if (!data.planar && turn > 0) continue;  // seen from inside
        const depth = points.reduce((sum, point) => sum + point[2], 0) / points.length;
        const colour = data.planar ? shade(body.colour, light) : shade(body.colour, unit(cross(sub(b, a), sub(c, a))));
        faces.push({ points, depth, colour, edge: data.planar ? "#333" : colour, body: body.name });
      }
    }
    faces.sort((a, b) => b.depth - a.depth);
    for (const arrow of view.forces ? [...data.contacts, ...data.reactions] : []) {
      const force = arrow.force[frame], from = arrow.point[frame];
      if (!force) continue;
      lines.push({ from: project(from), to: project(add(from, force)), colour: "rgb(213,94,0)" });
    }
    for (const contact of view.friction ? data.contacts : []) {
      const axes = contact.friction && contact.force[frame] && contact.friction[frame];
      if (!axes) continue;
      const from = contact.point[frame], [t, o] = axes, around = [...Array(24).keys()].map(k => k * Math.PI / 12);
      const ring = around.map(a => project(add(from, t.map((x, i) => Math.cos(a) * x + Math.sin(a) * o[i]))));
      rings.push({ points: ring, axis: project(add(from, t)), middle: project(from), contact: contact.name });
    }
    for (const joint of view.joints ? data.joints : []) {
      const [from, to] = joint.ends.map(end => project(end[frame]));
      lines.push({ from, to, colour: "rgb(30,30,30)", joint: joint.name });
    }
    return { faces, lines, rings };
  }
  function nearest(times, time) {
    let low = 0, high = times.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (times[middle] <= time) low = middle; else high = middle; }
    return time - times[low] < times[high] - time ? low : high;
  }
  // the numbers of a run, whose bodies share meshes
  function read(text) {
    const data = JSON.parse(text);
    return { ...data, bodies: data.bodies.map(body => ({ ...data.meshes[body.mesh], ...body })) };
  }
  return { read, picture, nearest, placed, frameOf, matrix, light };
})();
const MOVES = `#version 300 es
in vec3 point; out vec3 place;
uniform mat3 turn; uniform vec3 origin, eye, right, up, back, lens;  // lens: width and height at depth 1, and a length
void main() {
  place = turn * point + origin;
  vec3 d = place - eye; float depth = -dot(d, back), near = 0.01 * lens.z, far = 50.0 * lens.z;
  gl_Position = vec4(dot(d, right) * lens.x, dot(d, up) * lens.y,
                     ((far + near) * depth - 2.0 * far * near) / (far - near), depth);
}`, SHADES = `#version 300 es
precision highp float;
in vec3 place; out vec4 shown; uniform vec3 colour, light;
void main() {
  vec3 normal = normalize(cross(dFdx(place), dFdy(place)));
  shown = vec4(colour * (light == vec3(0) ? 1.0 : 0.45 + 0.275 * (1.0 + dot(normal, light))), 1.0);
}`;
// a function of a frame and a view that draws floors and bodies on `canvas`; null where there is no WebGL
function solids(data, canvas) {
  // smoothed edges would take twice the time where no graphics card helps
  const gl = canvas.getContext("webgl2", { antialias: false, alpha: false });
  if (!gl) return null;
  const program = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, MOVES], [gl.FRAGMENT_SHADER, SHADES]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text); gl.compileShader(shader); gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return null;
  gl.useProgram(program); gl.clearColor(1, 1, 1, 1);
  // asked for once, as it takes long
  const names = ["turn", "origin", "eye", "right", "up", "back", "lens", "colour", "light"];
  const places = Object.fromEntries(names.map(name => [name, gl.getUniformLocation(program, name)]));
  const set = (name, values) => gl.uniform3fv(places[name], values);
  function mesh({ vertices, faces, colour, poses }) {
    const all = gl.createVertexArray(), corners = new Uint32Array(faces.flat());
    gl.bindVertexArray(all);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(vertices.flat()), gl.STATIC_DRAW);
    gl.enableVertexAttribArray(0); gl.vertexAttribPointer(gl.getAttribLocation(program, "point"), 3, gl.FLOAT, false, 0, 0);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, corners, gl.STATIC_DRAW);
    return frame => {
      const pose = poses ? poses[frame] : [0, 0, 0, 1, 0, 0, 0];
      gl.uniformMatrix3fv(places.turn, true, viewer.matrix(pose.slice(3)).flat());
      set("origin", pose.slice(0, 3)); set("colour", colour);
      gl.bindVertexArray(all); gl.drawElements(gl.TRIANGLES, corners.length, gl.UNSIGNED_INT, 0);
    };
  }
  const fan = vertices => vertices.slice(2).map((_, i) => [0, i + 1, i + 2]), grey = [232, 232, 226].map(c => c / 255);
  const floors = data.floors.map(vertices => mesh({ vertices, faces: fan(vertices), colour: grey }));
  const bodies = data.bodies.map(mesh);
  return (frame, view) => {
    const { back, right, up, eye, focal } = viewer.frameOf(view, canvas.width, canvas.height);
    const lens = [2 * focal / canvas.width, 2 * focal / canvas.height, view.distance];
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    for (const [name, values] of Object.entries({ back, right, up, eye, lens })) set(name, values);
    gl.disable(gl.DEPTH_TEST); gl.disable(gl.CULL_FACE); set("light", [0, 0, 0]);  // floors are behind all, with one colour
    for (const floor of floors) floor(0);
    gl.enable(gl.DEPTH_TEST); gl.enable(gl.CULL_FACE); set("light", viewer.light);
    for (const body of bodies) body(frame);
  };
}
if (typeof document !== "undefined") {
  const data = viewer.read(document.getElementById("data").textContent), get = id => document.getElementById(id);
  const scene = get("scene"), curves = get("curves"), slider = get("time"), last = data.times.length - 1;
  const view = { ...data.view, forces: true, friction: true, joints: true }, home = view.target;
  let frame = 0, playing = false, clock = data.times[0], before = 0, told = 0;
  const solid = data.planar ? null : solids(data, get("solids"));
  slider.max = last;
  get("about").textContent = `${data.about}. ${data.planar ? "The" : "Drag to turn; the"} wheel zooms.`;
  function draw() {
    for (const id of ["forces", "friction", "joints"]) view[id] = get(id).checked;
    view.target = get("follow").checked && data.bodies.some(b => b.poses) ?
      data.bodies.find(b => b.poses).poses[frame].slice(0, 3) : home;
    const pen = scene.getContext("2d"), found = viewer.picture(data, frame, view, [scene.width, scene.height], solid);
    if (solid) { pen.clearRect(0, 0, scene.width, scene.height); solid(frame, view); }
    else { pen.fillStyle = "white"; pen.fillRect(0, 0, scene.width, scene.height); }
    for (const face of found.faces) {
      pen.beginPath(); face.points.forEach((p, i) => i ? pen.lineTo(p[0], p[1]) : pen.moveTo(p[0], p[1])); pen.closePath();
      pen.fillStyle = face.colour; pen.fill(); pen.strokeStyle = face.edge; pen.lineWidth = 0.6; pen.stroke();
    }
    pen.lineWidth = 1.2; pen.strokeStyle = "rgb(0,114,178)";
    for (const ring of found.rings) {  // with its first semi-axis, to which e_t belongs
      pen.beginPath(); pen.moveTo(ring.axis[0], ring.axis[1]); pen.lineTo(ring.middle[0], ring.middle[1]); pen.stroke();
      pen.beginPath(); ring.points.forEach((p, i) => i ? pen.lineTo(p[0], p[1]) : pen.moveTo(p[0], p[1]));
      pen.closePath(); pen.stroke();
    }
    pen.lineWidth = 2.5;
    for (const line of found.lines) {
      pen.strokeStyle = line.colour; pen.beginPath(); pen.moveTo(line.from[0], line.from[1]);
      pen.lineTo(line.to[0], line.to[1]); pen.stroke();
      for (const end of line.joint === undefined ? [line.from] : [line.from, line.to]) {
        pen.fillStyle = line.colour; pen.beginPath(); pen.arc(end[0], end[1], 3, 0, 7); pen.fill();
      }
    }
    cursor.transform = "translateX(" + (across(data.times[frame]) + 1).toFixed(1) + "px)";
    if (playing && performance.now() - told < 60) return;  // to lay out text and slider costs as much as to draw
    told = performance.now();
    get("now").textContent = "t = " + data.times[frame].toFixed(3) + " s"; slider.value = frame;
  }
  const pen = curves.getContext("2d"), width = curves.width, room = curves.height / data.curves.length, high = room - 34;
  const cursor = get("cursor").style;  // it alone moves: the curves are drawn once
  const [begin, end] = [data.times[0], data.times[last] > data.times[0] ? data.times[last] : data.times[0] + 1];
  const across = t => 46 + (width - 56) * (t - begin) / (end - begin);
  function lines() {
    pen.fillStyle = "white"; pen.fillRect(0, 0, width, curves.height); pen.font = "11px sans-serif";
    data.curves.forEach((panel, number) => {
      const top = number * room + 22, label = (width - 140) / Math.max(panel.lines.length, 3);
      const every = panel.lines.flatMap(line => line.values).filter(v => v !== null);
      const largest = Math.max(...every.map(Math.abs)), lowest = Math.min(0, ...every);
      const low = lowest > -1e-9 * largest ? 0 : lowest;  // what is rounding alone is 0
      const most = Math.max(...every, low + 1e-12);
      const up = v => top + high * (1 - (v - low) / (most - low));
      pen.fillStyle = "#222"; pen.fillText(panel.title, 46, top - 8);
      pen.fillText(most.toPrecision(3), 2, top + 8); pen.fillText(low.toPrecision(3), 2, top + high);
      panel.lines.forEach((line, i) => {
        pen.strokeStyle = line.colour; pen.lineWidth = 1.3; pen.beginPath(); let open = false;
        line.values.forEach((v, k) => {
          if (v === null) { open = false; return; }
          if (open) pen.lineTo(across(data.times[k]), up(v)); else pen.moveTo(across(data.times[k]), up(v));
          open = true;
        });
        pen.stroke(); pen.fillStyle = line.colour; pen.fillText(line.name, 140 + label * i, top - 8, label - 8);
      });
      pen.strokeStyle = "#bbb"; pen.lineWidth = 1; pen.strokeRect(46, top, width - 56, high);
      pen.beginPath();  // events, as marks on the time axis
      for (const t of data.events) { pen.moveTo(across(t), top + high); pen.lineTo(across(t), top + high + 6); }
      pen.strokeStyle = "#222"; pen.stroke();
    });
  }
  function tick(now) {
    if (!playing) return;
    clock += (now - before) / 1000 * Number(get("speed").value); before = now;
    if (clock >= data.times[last]) { clock = data.times[last]; playing = false; get("play").textContent = "play"; }
    frame = viewer.nearest(data.times, clock); draw(); requestAnimationFrame(tick);
  }
  get("play").addEventListener("click", () => {
    playing = !playing; get("play").textContent = playing ? "stop" : "play";
    if (frame === last) frame = 0;
    clock = data.times[frame]; before = performance.now(); if (playing) requestAnimationFrame(tick);
  });
  slider.addEventListener("input", () => { frame = Number(slider.value); clock = data.times[frame]; draw(); });
  for (const id of ["follow", "forces", "friction", "joints"]) get(id).addEventListener("change", draw);
  scene.addEventListener("pointermove", event => {
    if (!event.buttons || data.planar) return;
    view.azimuth -= event.movementX * 0.008;
    view.elevation = Math.min(1.55, Math.max(-1.55, view.elevation + event.movementY * 0.008)); draw();
  });
  scene.addEventListener("wheel", event => {
    event.preventDefault(); view.distance *= Math.exp(event.deltaY * 0.001); draw();
  }, { passive: false });
  lines(); draw();
}
</script></body></html>
"""
