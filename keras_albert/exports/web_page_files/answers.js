// What the tasks of keras_albert answer, computed by ONNX Runtime from texts.

const SPECIALS = 2; // Around one text; a pair has one more.

// Words as `tag` splits them: of letters and digits, single signs, and single characters
// of scripts without spaces; a mark belongs to the character before it.
const MARKS = String.raw`[\p{Mn}\p{Mc}\p{Me}\p{Cf}\u{1f3fb}-\u{1f3ff}]*`;
const SIGN = String.raw`[^\p{L}\p{N}_\s\u{1f1e6}-\u{1f1ff}]`;
const wordPattern = (unspaced) =>
  new RegExp(
    `[${unspaced}]${MARKS}` +
      `|(?:(?![${unspaced}])[\\p{L}\\p{N}_]${MARKS})+` +
      `|[\\u{1f1e6}-\\u{1f1ff}]{1,2}${MARKS}` +
      `|${SIGN}${MARKS}(?:(?<=\\u200d)${SIGN}${MARKS})*`,
    "gu",
  );

/** A model of a folder that `export_transformers_onnx` writes, and what it answers. */
export class Model {
  /** `facts` are its entry in `models.json`; `tools` are `ort` and `Tokenizer`. */
  constructor(facts, files, session, { ort, Tokenizer }) {
    this.facts = facts;
    this.session = session;
    this.ort = ort;
    this.tokenizer = new Tokenizer(files.tokenizer, files.tokenizerConfig);
    this.labels = Object.values(files.config.id2label ?? {});
    this.problem = files.config.problem_type;
    const id = (role) => this.tokenizer.token_to_id(files.tokenizerConfig[role]);
    this.cls = id("cls_token");
    this.sep = id("sep_token");
    this.mask = id("mask_token");
    this.unknown = id("unk_token");
    this.begin();
  }

  /** Count anew what the next answer reads. */
  begin() {
    this.tokens = 0;
    this.isCut = false;
  }

  pieces(text) {
    return this.tokenizer.encode(text, { add_special_tokens: false });
  }

  /** Run one row: the ids of a text, perhaps of a second one. */
  async run(first, second = null) {
    const parts = [[this.cls, ...first, this.sep]];
    if (second !== null) parts.push([...second, this.sep]);
    const ids = parts.flat();
    const segments = parts.flatMap((part, segment) => part.map(() => segment));
    this.tokens += ids.length;
    const row = (values) =>
      new this.ort.Tensor("int64", BigInt64Array.from(values, BigInt), [1, ids.length]);
    const outputs = await this.session.run({
      input_ids: row(ids),
      attention_mask: row(ids.map(() => 1)),
      token_type_ids: row(segments),
    });
    const rows = {};
    for (const [name, output] of Object.entries(outputs)) {
      const width = output.dims.length === 3 ? output.dims[2] : output.data.length;
      rows[name] = [];
      for (let at = 0; at < output.data.length; at += width) {
        rows[name].push(Array.from(output.data.subarray(at, at + width)));
      }
    }
    return { ids, ...rows };
  }

  cut(ids) {
    const room = this.facts.max_length - SPECIALS;
    this.isCut ||= ids.length > room;
    return ids.slice(0, room);
  }

  async classify(text) {
    const { logits } = await this.run(this.cut(this.pieces(text).ids));
    if (this.problem === "regression") return { score: logits[0][0] };
    const isSet = this.problem === "multi_label_classification";
    const scores = isSet
      ? logits[0].map((x) => 1 / (1 + Math.exp(-x)))
      : softmax(logits[0]);
    const answers = this.labels.map((label, i) => ({ label, score: scores[i] }));
    return answers.sort((a, b) => b.score - a.score);
  }

  /** Tag the words of a text, as many as fit in a row, and join them to entities. */
  async tag(text) {
    const words = [];
    const ids = [];
    for (const match of text.matchAll(wordPattern(this.facts.unspaced))) {
      const own = this.pieces(match[0]).ids;
      this.isCut = ids.length + own.length > this.facts.max_length - SPECIALS;
      if (this.isCut) break;
      if (!own.length) continue;
      const start = match.index;
      words.push({ start, end: start + match[0].length, first: ids.length + 1, count: own.length });
      ids.push(...own);
    }
    if (!words.length) return [];
    const { logits } = await this.run(ids);
    for (const word of words) {
      const used = this.facts.label_all_pieces ? word.count : 1;
      const rows = logits.slice(word.first, word.first + used);
      const scores = softmax(rows[0].map((_, i) => mean(rows.map((row) => row[i]))));
      word.score = Math.max(...scores);
      word.tag = this.labels[scores.indexOf(word.score)];
    }
    return joinTags(words).map(({ label, words: inside }) => {
      const start = inside[0].start;
      const end = inside.at(-1).end;
      const score = mean(inside.map((word) => word.score));
      return { label, score, start, end, text: text.slice(start, end) };
    });
  }

  /** Find the answer to a question in a context of any length. */
  async answer(question, context) {
    const facts = this.facts;
    const budget = facts.max_length - 3;
    const kept = Math.min(facts.max_query_length, Math.floor(budget / 2));
    const asked = this.pieces(question).ids.slice(0, kept);
    const pieces = this.pieces(context);
    const read = pieces.ids;
    if (!read.length) return { answer: "", score: 1, start: 0, end: 0 };
    const spans = placesOf(context, pieces.tokens, read.map((id) => id === this.unknown));
    const found = [];
    let nothing = Infinity;
    for (const window of windowsOf(read.length, budget - asked.length, facts.doc_stride)) {
      const part = read.slice(window.begin, window.end);
      const outputs = await this.run(asked, part);
      const [starts, ends] = ["start_logits", "end_logits"].map((name) =>
        softmax(outputs[name][0]).map(Math.log),
      );
      nothing = Math.min(nothing, starts[0] + ends[0]);
      const offset = asked.length + 2 - window.begin;
      for (let first = window.ownedFrom; first < window.ownedTo; first++) {
        const last = Math.min(first + facts.max_answer_length, window.end);
        for (let end = first; end < last; end++) {
          const score = starts[first + offset] + ends[end + offset];
          if (spans[end][1] > spans[first][0]) found.push([score, first, end]);
        }
      }
    }
    found.sort((a, b) => b[0] - a[0]);
    const threshold = facts.null_threshold;
    if (!found.length || (threshold !== null && nothing - found[0][0] > threshold)) {
      return { answer: "", score: Math.exp(nothing), start: 0, end: 0 };
    }
    const [score, first, last] = found[0];
    const [start, end] = [spans[first][0], spans[last][1]];
    return { answer: context.slice(start, end), score: Math.exp(score), start, end };
  }

  async embed(text) {
    const facts = this.facts;
    const found = await this.run(this.cut(this.pieces(facts.prompt + text).ids));
    const rows = found.last_hidden_state;
    if (facts.pooling_mode === "cls") return rows[0];
    const most = facts.pooling_mode === "max";
    return rows[0].map((_, i) => {
      const column = rows.map((row) => row[i]);
      return most ? Math.max(...column) : mean(column);
    });
  }

  /** The cosine of two texts. */
  async compare(first, second) {
    const vectors = [await this.embed(first), await this.embed(second)];
    const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
    const [a, b] = vectors.map((vector) => Math.sqrt(dot(vector, vector)));
    return { similarity: dot(...vectors) / (a * b) };
  }

  /** The likeliest tokens of the first mask of a text. */
  async fill(text, count = 5) {
    const { ids, logits } = await this.run(this.cut(this.pieces(text).ids));
    const place = ids.indexOf(this.mask);
    if (place < 0) return [];
    const scores = softmax(logits[place]);
    const order = [...scores.keys()].sort((a, b) => scores[b] - scores[a]);
    return order.slice(0, count).map((token) => ({
      token,
      label: this.tokenizer.decode([token], { skip_special_tokens: false }).trim(),
      score: scores[token],
    }));
  }
}

export function softmax(values) {
  const most = Math.max(...values);
  const exponents = values.map((x) => Math.exp(x - most));
  const sum = exponents.reduce((a, b) => a + b, 0);
  return exponents.map((x) => x / sum);
}

function mean(values) {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

/** Join words to entities: a tag that does not continue one begins one. */
function joinTags(words) {
  const entities = [];
  let isOpen = false;
  for (const word of words) {
    if (word.tag === "O") {
      isOpen = false;
      continue;
    }
    const parts = /^([BIES])-(.*)$/su.exec(word.tag) ?? [null, "I", word.tag];
    const [, mark, label] = parts;
    const last = entities.at(-1);
    if (isOpen && mark !== "B" && mark !== "S" && last.label === label) last.words.push(word);
    else entities.push({ label, words: [word] });
    isOpen = mark !== "E" && mark !== "S";
  }
  return entities;
}

/** Overlapping windows of a long text, each with the tokens that it answers for. */
export function windowsOf(length, size, stride) {
  stride = Math.min(stride, size);
  const kept = Math.min(length, size);
  const count = Math.max(Math.ceil((length - size) / stride), 0) + 1;
  const begin = (number) => Math.min(number * stride, length - kept);
  const border = (number) => Math.floor((begin(number) + begin(number - 1) + kept + 1) / 2);
  return Array.from({ length: count }, (_, i) => ({
    begin: begin(i),
    end: begin(i) + kept,
    ownedFrom: i === 0 ? 0 : border(i),
    ownedTo: i === count - 1 ? begin(i) + kept : border(i + 1),
  }));
}

const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** The first and the last place in a text of each of its tokens. */
export function placesOf(text, tokens, isUnknown) {
  // Characters as tokens have them, without blanks, each with its place.
  const characters = [];
  const places = [];
  let place = 0;
  for (const character of text) {
    const end = place + character.length;
    for (const each of plain(character).replace(/\s/gu, "")) {
      characters.push(each);
      places.push([place, end]);
    }
    place = end;
  }
  let at = 0;
  return tokens.map((token, number) => {
    const letters = [...plain(token.replace(/^(##|\u2581)/u, ""))];
    const here = Math.min(at, places.length - 1);
    if (here < 0 || (!letters.length && !isUnknown[number])) {
      return here < 0 ? [0, 0] : [places[here][0], places[here][0]];
    }
    if (isUnknown[number]) {
      // An unknown word ends with its letters.
      let end = here + 1;
      const joins = (i) => places[i][0] === places[i - 1][1];
      const isWord = (i) => /[\p{L}\p{N}\p{So}]/u.test(characters[i]);
      while (end < places.length && joins(end) && isWord(end) && isWord(here)) end++;
      at = end;
      return [places[here][0], places[end - 1][1]];
    }
    // A few characters, such as controls, are in no token.
    let first = here;
    const fits = () => letters.every((x, i) => characters[first + i] === x);
    while (first < here + 8 && !fits()) first++;
    if (!fits()) first = here;
    at = first + letters.length;
    return [places[first][0], places[Math.min(at, places.length) - 1][1]];
  });
}
