// Classifies each line of the standard input by a folder of
// `task.export(folder, format="transformers_onnx")`, without Python:
//
//   g++ -std=c++17 -O2 classify.cpp -I include -L lib -lonnxruntime -o classify
//   ./classify folder < texts.txt
//
// It prints a label and its probability, with a tab between them. The folder must have
// a WordPiece vocabulary without case. Texts may have ASCII, the letters of Latin-1,
// usual punctuation and CJK characters; other characters are refused, since their
// lowercase form and accents need Unicode's tables. A special token in a text, such as
// [MASK], is read as a word.

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

using Word = std::u32string;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("There is no file " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void append(std::string& text, char32_t c) {
  const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  const int first[] = {0, 0xC0, 0xE0, 0xF0};
  text += char(first[more] | c >> 6 * more);
  for (int k = more - 1; k >= 0; --k) text += char(0x80 | (c >> 6 * k & 0x3F));
}

std::string utf8(const Word& word) {
  std::string text;
  for (char32_t c : word) append(text, c);
  return text;
}

Word decode(const std::string& text) {
  Word found;
  for (size_t i = 0; i < text.size();) {
    const unsigned char first = text[i++];
    const int more = first < 0x80 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    char32_t c = more ? first & (0x3F >> more) : first;
    for (int k = 0; k < more; ++k) {
      if (i == text.size() || (text[i] & 0xC0) != 0x80)
        throw std::runtime_error("A text is not UTF-8");
      c = c << 6 | (text[i++] & 0x3F);
    }
    if ((first & 0xC0) == 0x80) throw std::runtime_error("A text is not UTF-8");
    found += c;
  }
  return found;
}

// Reads flat JSON, as much as these files have.
struct Json {
  const std::string& text;
  size_t at = 0;

  // Moves behind a key's colon.
  void find(const std::string& key) {
    at = text.find("\"" + key + "\":", at);
    if (at == std::string::npos) throw std::runtime_error("There is no " + key);
    at += key.size() + 3;
  }
  char next() {
    at = text.find_first_not_of(" \n\r\t,:", at);
    if (at == std::string::npos) throw std::runtime_error("The JSON has no end");
    return text[at];
  }
  int64_t number() {
    next();
    size_t length = 0;
    const int64_t value = std::stoll(text.substr(at, 24), &length);
    at += length;
    return value;
  }
  char32_t hexadecimal() {
    const std::string digits = text.substr(at, 4);
    at += 4;
    return char32_t(std::stoul(digits, nullptr, 16));
  }
  std::string string() {
    if (next() != '"') throw std::runtime_error("The JSON has no string");
    std::string found;
    for (++at; text.at(at) != '"';) {
      if (text[at] != '\\') {
        found += text[at++];
        continue;
      }
      const char kind = text.at(at + 1);
      at += 2;
      if (kind == 'u') {
        char32_t c = hexadecimal();
        if (c >= 0xD800 && c < 0xDC00) {
          at += 2;  // the other half of the pair
          c = 0x10000 + ((c - 0xD800) << 10) + (hexadecimal() - 0xDC00);
        }
        append(found, c);
      } else {
        const std::string names = "bfnrt", values = "\b\f\n\r\t";
        const size_t place = names.find(kind);
        found += place == std::string::npos ? kind : values[place];
      }
    }
    ++at;
    return found;
  }
};

class Tokenizer {
 public:
  explicit Tokenizer(const std::string& folder) {
    const std::string text = read(folder + "/tokenizer.json");
    for (const char* word : {"\"WordPiece\"", "\"BertNormalizer\""})
      if (text.find(word) == std::string::npos)
        throw std::runtime_error(std::string("The tokenizer is no ") + word);
    Json json{text};
    json.find("lowercase");
    if (json.next() != 't') throw std::runtime_error("The vocabulary has case");
    json.find("vocab");
    json.next();
    for (++json.at; json.next() != '}';) {
      const std::string piece = json.string();
      ids_[piece] = json.number();
    }
    const std::string settings = read(folder + "/tokenizer_config.json");
    Json limit{settings};
    limit.find("model_max_length");
    max_length_ = size_t(limit.number());
  }

  std::vector<int64_t> encode(const std::string& text) const {
    std::vector<int64_t> found{ids_.at("[CLS]")};
    for (const Word& word : words(decode(text))) add_pieces(word, found);
    found.resize(std::min(found.size(), max_length_ - 1));
    found.push_back(ids_.at("[SEP]"));
    return found;
  }

 private:
  std::unordered_map<std::string, int64_t> ids_;
  size_t max_length_ = 0;

  static bool is_space(char32_t c) {
    return c == ' ' || (c >= 9 && c <= 13 && c != 11 && c != 12) || c == 0xA0 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x202F || c == 0x3000;
  }
  static bool is_cjk(char32_t c) { return c >= 0x4E00 && c <= 0x9FFF; }
  static bool is_punctuation(char32_t c) {
    const Word latin = U"\u00A1\u00A7\u00AB\u00B6\u00B7\u00BB\u00BF";
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
           (c >= 123 && c <= 126) || latin.find(c) != Word::npos ||
           (c >= 0x2010 && c <= 0x2027) || (c >= 0x2030 && c <= 0x2043) ||
           (c >= 0x3001 && c <= 0x3003);
  }
  // In lower case and without an accent; 0 to leave the character out.
  static char32_t normalize(char32_t c) {
    if (c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD) return 0;
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
    if (c >= 0x300 && c <= 0x36F) return 0;
    if (c >= 0xC0 && c <= 0xFF) {
      if (c < 0xDF && c != 0xD7) c += 32;
      static const Word plain =
          U"aaaaaa\u00E6ceeeeiiii\u00F0nooooo\u00F7\u00F8uuuuy\u00FEy";
      return c >= 0xE0 ? plain[c - 0xE0] : c;
    }
    if (c < 0xC0 || is_cjk(c) || is_punctuation(c)) return c;
    throw std::runtime_error("Not read by this example: U+" + std::to_string(c));
  }

  static std::vector<Word> words(const Word& text) {
    std::vector<Word> found;
    bool continues = false;
    for (char32_t c : text) {
      const bool space = is_space(c);
      if (!space && (c = normalize(c)) == 0) continue;
      const bool alone = !space && (is_punctuation(c) || is_cjk(c));
      if (!space && (alone || !continues)) found.emplace_back();
      if (!space) found.back() += c;
      continues = !space && !alone;
    }
    return found;
  }

  void add_pieces(const Word& word, std::vector<int64_t>& found) const {
    const size_t before = found.size();
    for (size_t start = 0, end = 0; start < word.size(); start = end) {
      auto piece = ids_.end();
      for (end = word.size(); end > start && piece == ids_.end(); --end)
        piece = ids_.find((start ? "##" : "") + utf8(word.substr(start, end - start)));
      if (piece == ids_.end() || word.size() > 100) {
        found.resize(before);
        found.push_back(ids_.at("[UNK]"));
        return;
      }
      ++end;  // the loop has stepped over it
      found.push_back(piece->second);
    }
  }
};

int main(int count, char** arguments) try {
  if (count != 2) throw std::runtime_error("Usage: classify FOLDER < TEXTS");
  const std::string folder = arguments[1], config = read(folder + "/config.json");
  const Tokenizer tokenizer(folder);
  std::vector<std::string> labels;
  Json json{config};
  json.find("id2label");
  json.next();
  for (++json.at; json.next() != '}'; labels.push_back(json.string())) json.string();

  Ort::Env environment(ORT_LOGGING_LEVEL_WARNING);
  Ort::Session session(environment, (folder + "/onnx/model.onnx").c_str(),
                       Ort::SessionOptions());
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const std::array<const char*, 3> names{"input_ids", "attention_mask",
                                         "token_type_ids"};
  const char* output = "logits";
  for (std::string text; std::getline(std::cin, text);) {
    std::vector<int64_t> ids = tokenizer.encode(text);
    std::vector<int64_t> mask(ids.size(), 1), types(ids.size(), 0);
    const std::array<int64_t, 2> shape{1, int64_t(ids.size())};
    std::vector<Ort::Value> inputs;
    for (std::vector<int64_t>* values : {&ids, &mask, &types})
      inputs.push_back(Ort::Value::CreateTensor<int64_t>(
          memory, values->data(), values->size(), shape.data(), shape.size()));
    const auto outputs =
        session.Run(Ort::RunOptions(), names.data(), inputs.data(), 3, &output, 1);
    const float* logits = outputs[0].GetTensorData<float>();
    const size_t best = std::max_element(logits, logits + labels.size()) - logits;
    double total = 0;
    for (size_t i = 0; i < labels.size(); ++i)
      total += std::exp(double(logits[i]) - logits[best]);
    std::cout << labels[best] << '\t' << 1 / total << '\n';
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
