// The page: a form for each model of `models.json`, which is loaded when it is asked.

import * as ort from "./javascript/ort.wasm.bundle.min.mjs";
import { Tokenizer } from "./javascript/tokenizers.min.mjs";
import { Model } from "./answers.js";

const runtime = new URL("./javascript/ort-wasm-simd-threaded.wasm", import.meta.url);
ort.env.wasm.wasmPaths = { wasm: runtime.href };
// More threads need headers that plain servers do not send.
ort.env.wasm.numThreads = 1;

const FORMS = {
  AlbertClassifier: {
    about: "Type a text; the model names its class.",
    fields: { text: "A warm and funny film, and far better than the book." },
    ask: (model, { text }) => model.classify(text),
    show: showScores,
  },
  AlbertTokenClassifier: {
    about: "Type a text; the model marks the names in it.",
    fields: { text: "Angela Merkel met the head of IBM in New York on Friday." },
    ask: (model, { text }) => model.tag(text),
    show: showEntities,
  },
  AlbertQuestionAnswerer: {
    about: "Ask about a text; the model marks the answer in it.",
    fields: {
      question: "Where does Anna live now?",
      context: "Anna was born in Rome and studied in Vienna. She now lives in Paris, near the river.",
    },
    ask: (model, { question, context }) => model.answer(question, context),
    show: showAnswer,
  },
  AlbertTextEmbedder: {
    about: "Type two texts; the model says how similar their meanings are.",
    fields: { text: "How do I return a parcel?", other: "I want to send my order back." },
    ask: (model, { text, other }) => model.compare(text, other),
    show: showSimilarity,
  },
  AlbertMaskedLM: {
    about: "Type a text with [MASK]; the model fills it in.",
    fields: { text: "The river runs through the [MASK] and into the sea." },
    ask: (model, { text }) => model.fill(text),
    show: showScores,
  },
};

function make(tag, text = "", properties = {}) {
  return Object.assign(document.createElement(tag), { textContent: text }, properties);
}

const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
const percent = (score) => `${(100 * score).toFixed(1)}%`;

async function fetchChecked(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address}: ${response.status}`);
  return response;
}

async function load(facts) {
  const json = async (name) => (await fetchChecked(`${facts.folder}/${name}`)).json();
  const [config, tokenizer, tokenizerConfig, graph] = await Promise.all([
    json("config.json"),
    json("tokenizer.json"),
    json("tokenizer_config.json"),
    fetchChecked(`${facts.folder}/onnx/model_quantized.onnx`).then((x) => x.arrayBuffer()),
  ]);
  const session = await ort.InferenceSession.create(new Uint8Array(graph), {
    executionProviders: ["wasm"],
  });
  return new Model(facts, { config, tokenizer, tokenizerConfig }, session, { ort, Tokenizer });
}

// One model computes at a time.
let last = Promise.resolve();

function addForm(facts, size) {
  const form = FORMS[facts.task];
  const section = make("section");
  section.dataset.task = facts.task;
  section.append(make("h2", facts.title), make("p", form.about));
  const inputs = {};
  for (const [name, example] of Object.entries(form.fields)) {
    const label = make("label", name === "other" ? "another text" : name);
    const rows = example.length > 80 ? 4 : 2;
    inputs[name] = make("textarea", "", { value: example, rows, name });
    label.append(inputs[name]);
    section.append(label);
  }
  const button = make("button", "Run", { type: "button" });
  const status = make("p", `int8, ${size}, loaded when you run it`);
  status.className = "status";
  status.setAttribute("role", "status");
  const output = make("output");
  section.append(button, output, status);

  let model = null;
  async function run() {
    button.disabled = true;
    delete section.dataset.answer;
    try {
      if (model === null) {
        status.textContent = `Loading ${size} …`;
        const begun = performance.now();
        model = await load(facts);
        model.loaded = Math.round(performance.now() - begun);
      }
      const values = Object.fromEntries(
        Object.entries(inputs).map(([name, input]) => [name, input.value]),
      );
      model.begin();
      const begun = performance.now();
      const answer = await form.ask(model, values);
      const milliseconds = performance.now() - begun;
      output.replaceChildren(...form.show(answer, values));
      status.textContent =
        (model.isCut ? "The text is too long: its beginning was read. " : "") +
        `${model.tokens} tokens in ${milliseconds.toFixed(0)} ms; ` +
        `int8, ${size}, loaded in ${model.loaded} ms`;
      section.dataset.answer = JSON.stringify(answer);
    } catch (error) {
      output.replaceChildren(make("p", `It failed: ${error.message}`, { className: "error" }));
      status.textContent = "";
      section.dataset.answer = JSON.stringify({ error: String(error) });
    } finally {
      button.disabled = false;
    }
  }
  button.addEventListener("click", () => {
    last = last.then(run);
  });
  document.querySelector("main").append(section);
}

function showScores(answers) {
  if (!Array.isArray(answers)) return [make("p", answers.score.toFixed(3), { className: "number" })];
  if (!answers.length) return [make("p", "There is no [MASK] in the text.")];
  return answers.slice(0, 8).map(({ label, score }) => {
    const row = make("div", "", { className: "score" });
    const bar = make("meter", "", { max: 1, value: score });
    bar.setAttribute("aria-label", label);
    row.append(make("span", label), bar, make("span", percent(score)));
    return row;
  });
}

function marked(text, spans) {
  const line = make("p", "", { className: "marked" });
  let place = 0;
  for (const { start, end, label, score } of spans) {
    const mark = make("mark", text.slice(start, end));
    mark.append(make("small", label ? `${label} ${percent(score)}` : percent(score)));
    line.append(text.slice(place, start), mark);
    place = end;
  }
  line.append(text.slice(place));
  return line;
}

function showEntities(entities, { text }) {
  const line = marked(text, entities);
  return entities.length ? [line] : [line, make("p", "The model finds no names.")];
}

function showAnswer(answer, { context }) {
  if (answer.answer) return [marked(context, [answer])];
  return [make("p", `The text has no answer (${percent(answer.score)}).`)];
}

function showSimilarity({ similarity }) {
  return showScores([{ label: "cosine", score: similarity }]).map((row) => {
    row.lastChild.textContent = similarity.toFixed(3);
    return row;
  });
}

const found = await (await fetchChecked("models.json")).json();
document.querySelector("#runtime").textContent = megabytes(found.runtime_bytes);
for (const facts of found.models) addForm(facts, megabytes(facts.bytes));
document.documentElement.dataset.ready = "true";
