const VERTEX = `
attribute vec2 place;
attribute vec4 colour;
uniform vec2 centre;
uniform vec2 scale;
uniform mediump float size;
varying vec4 fill;
void main() {
  gl_Position = vec4((place - centre) * scale, 0.0, 1.0);
  gl_PointSize = size;
  fill = colour;
}`;
const FRAGMENT = `
precision mediump float;
uniform float size;
uniform vec4 edge;
uniform float strength;
varying vec4 fill;
void main() {
  float away = length(gl_PointCoord - 0.5) * size;
  float inside = clamp(size * 0.5 - away, 0.0, 1.0);
  float rim = edge.a * clamp(away - (size * 0.5 - 2.0), 0.0, 1.0);
  gl_FragColor = vec4(mix(fill.rgb, edge.rgb, rim), 1.0) * (inside * fill.a * strength);
}`;

const DIM = 0.1;
/** Fainter where there are many, so that it shows where they are dense; from close by there is no need to. */
function opacity() {
  const least = Math.min(Math.max(1.62 - 0.21 * Math.log10(n + 1), 0.45), 0.92);
  return least + (0.92 - least) * Math.min(Math.max(Math.log2(zoomed()) / 4, 0), 1);
}


/** All nodes, spread out, so that no kind lies above the others only because it comes last. */
const mixed = (() => {
  const divisor = (a, b) => (b ? divisor(b, a % b) : a);
  let step = Math.max(1, Math.floor(n * 0.618));
  while (divisor(step, n) > 1) step++;
  return Uint32Array.from({ length: n }, (_, i) => (i * step) % n);
})();

/** Places and kinds in the order they are drawn: what is missing or out of focus lies below. */
function layered() {
  const below = paint.kinds.map((kind, i) => kind.name === "missing" || !inFocus(i));
  const places = new Float32Array(2 * n);
  const kinds = new Uint8Array(n);
  let to = 0;
  for (const layer of [true, false])
    for (const i of mixed) {
      if (below[paint.kind[i]] !== layer) continue;
      places[2 * to] = world.points[2 * i];
      places[2 * to + 1] = world.points[2 * i + 1];
      kinds[to++] = paint.kind[i];
    }
  return { places, kinds };
}

/** Each kind's colour as four bytes. */
function table(strength) {
  const parts = paint.kinds.flatMap((kind, i) => [...channels(kind.colour), 255 * strength * (inFocus(i) ? 1 : DIM)]);
  return new Uint32Array(Uint8Array.from(parts).buffer);
}

function webgl(canvas) {
  // Without a graphics card the plain canvas is quicker.
  const gl = canvas.getContext("webgl", { antialias: false, failIfMajorPerformanceCaveat: true });
  if (!gl) return null;
  let at = null;

  function compiled(type, source) {
    const shader = gl.createShader(type);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    return shader;
  }

  function attribute(name, parts, type, normal) {
    at[`${name}s`] = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, at[`${name}s`]);
    const where = gl.getAttribLocation(at.program, name);
    gl.enableVertexAttribArray(where);
    gl.vertexAttribPointer(where, parts, type, normal, 0, 0);
  }

  function prepare() {
    const program = gl.createProgram();
    gl.attachShader(program, compiled(gl.VERTEX_SHADER, VERTEX));
    gl.attachShader(program, compiled(gl.FRAGMENT_SHADER, FRAGMENT));
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return false;
    gl.useProgram(program);
    at = { program };
    for (const name of ["centre", "scale", "size", "edge", "strength"]) at[name] = gl.getUniformLocation(program, name);
    attribute("place", 2, gl.FLOAT, false);
    attribute("colour", 4, gl.UNSIGNED_BYTE, true);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    return true;
  }

  function colour() {
    const { places, kinds } = layered();
    const colours = table(1);
    const filled = Uint32Array.from(kinds, (kind) => colours[kind]);
    for (const [buffer, values] of [[at.places, places], [at.colours, filled]]) {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
    }
  }

  function draw(ratio, background) {
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    if (!n) return;
    const r = radius();
    gl.uniform2f(at.centre, view.x, view.y);
    gl.uniform2f(at.scale, (2 * view.k) / view.width, (2 * view.k) / view.height);
    gl.uniform1f(at.size, (2 * r + 1) * ratio);
    gl.uniform1f(at.strength, opacity());
    gl.uniform4f(at.edge, ...channels(background).map((part) => part / 255), Math.min(Math.max((r - 2) / 2, 0), 0.75));
    gl.drawArrays(gl.POINTS, 0, n);
  }

  if (!prepare()) return null;
  canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
  canvas.addEventListener("webglcontextrestored", () => {
    prepare();
    colour();
    refresh();
  });
  return { name: "webgl", colour, draw };
}

/** The same without WebGL: discs where nodes are few or large, else squares of pixels. */
function flat(taken) {
  const canvas = taken.cloneNode();
  taken.replaceWith(canvas);
  const context = canvas.getContext("2d");
  let drawn = { places: [], kinds: [] };
  let image = null;

  function discs(r, ratio) {
    const strength = opacity();
    const [left, above] = [view.width / 2 - view.x * view.k, view.height / 2 + view.y * view.k];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawn.kinds.forEach((kind, at) => {
      const x = left + drawn.places[2 * at] * view.k;
      const y = above - drawn.places[2 * at + 1] * view.k;
      if (x < -r || y < -r || x > view.width + r || y > view.height + r) return;
      context.globalAlpha = strength * (inFocus(kind) ? 1 : DIM);
      context.fillStyle = paint.kinds[kind].colour;
      context.beginPath();
      context.arc(x, y, r, 0, 2 * Math.PI);
      context.fill();
    });
  }

  function squares(r, ratio) {
    const { width, height } = canvas;
    if (image?.width !== width || image?.height !== height) image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer).fill(0);
    const colours = table(Math.max(opacity(), 0.8));
    const side = Math.max(1, Math.round(2 * r * ratio));
    const k = view.k * ratio;
    const [left, above] = [(width - side) / 2 - view.x * k, (height - side) / 2 + view.y * k];
    const { places, kinds } = drawn;
    for (let at = 0; at < n; at++) {
      const x = Math.round(left + places[2 * at] * k);
      const y = Math.round(above - places[2 * at + 1] * k);
      if (x < 0 || y < 0 || x + side > width || y + side > height) continue;
      const colour = colours[kinds[at]];
      for (let row = y * width + x, last = row + side * width; row < last; row += width)
        for (let to = row; to < row + side; to++) pixels[to] = colour;
    }
    context.putImageData(image, 0, 0);
  }

  function draw(ratio) {
    context.resetTransform();
    context.clearRect(0, 0, canvas.width, canvas.height);
    (n > 10000 && radius() < 4 ? squares : discs)(radius(), ratio);
  }
  return { name: "canvas", colour: () => (drawn = layered()), draw };
}

const renderer = webgl(element("points-layer")) || flat(element("points-layer"));
