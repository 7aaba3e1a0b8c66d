#include "tests/script/packet_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/bytes.h"
#include "tests/support/encode.h"
#include "tests/support/packet_text.h"

namespace uroce::test {

namespace {

std::vector<std::string> split(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string key_of(const std::string& word) { return word.substr(0, word.find('=')); }

bool has_key(const std::vector<std::string>& words, const std::string& key) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& w) { return key_of(w) == key; });
}

/// The value of `key` among the words, the word itself for a flag, "" when absent (a default, in canonical text).
std::string lookup(const std::vector<std::string>& words, const std::string& key) {
  for (const std::string& word : words) {
    if (key_of(word) == key) return word;
  }
  return {};
}

/// Takes the words of our own out of the line; what remains is wire's text form.
struct PacketWords {
  std::string packet;
  std::vector<std::string> mentioned;
  std::map<std::string, std::string> own;

  PacketWords(const ScriptLine& line, const Symbols& symbols, std::initializer_list<const char*> own_keys,
              uint32_t default_qpn) {
    for (const std::string& written : line.words) {
      const std::string word = symbols.substitute(written);
      const std::string key = key_of(word);
      if (std::find(own_keys.begin(), own_keys.end(), key) != own_keys.end()) {
        own[key] = word.size() > key.size() ? word.substr(key.size() + 1) : "";
        continue;
      }
      mentioned.push_back(word);
      packet.append(packet.empty() ? "" : " ").append(word);
    }
    if (!has_key(mentioned, "qp")) {
      mentioned.push_back(fmt::format("qp={}", default_qpn));
      packet.append(" ").append(mentioned.back());
    }
  }
  uint64_t number(const char* key) const { return std::stoull(own.at(key), nullptr, 0); }
  bool has(const char* key) const { return own.contains(key); }
};

TextPacket parse_text(const ScriptLine& line, const std::string& text) {
  auto parsed = from_text(text);
  if (!parsed) throw ScriptError{line.number, parsed.error().text};
  return *parsed;
}

Gid parse_ipv4(const std::string& text) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  require(std::sscanf(text.c_str(), "%u.%u.%u.%u", &a, &b, &c, &d) == 4, fmt::format("bad IPv4 address {}", text));
  return Gid::from_ipv4(a << 24 | b << 16 | c << 8 | d);
}

void spoil(Frame& frame, const PacketWords& words) {
  const std::size_t l3 = load_be16(frame.data() + 12) == 0x8100 ? 18 : 14;
  const std::size_t bth = l3 + (load_be16(frame.data() + l3 - 2) == 0x0800 ? 20 : 40) + 8;
  auto& flags = frame[bth + 1];
  if (words.has("pad")) flags = (flags & std::byte{0xcf}) | static_cast<std::byte>(words.number("pad") << 4);
  if (words.has("tver")) flags = (flags & std::byte{0xf0}) | static_cast<std::byte>(words.number("tver"));
  if (words.has("raw_opcode")) frame[bth] = static_cast<std::byte>(words.number("raw_opcode"));
  if (words.has("pad") || words.has("tver") || words.has("raw_opcode")) reseal(frame);
  if (words.has("bad_icrc")) frame.back() ^= std::byte{1};
  if (words.has("cut")) frame.resize(frame.size() - std::min<std::size_t>(frame.size(), words.number("cut")));
}

void set_seal(wire::Bth& bth, const PacketWords& words, wire::Seal seal) {
  const std::string which = words.has("seal") ? words.own.at("seal") : "right";
  if (which == "none") seal = {};
  if (which == "wrong") seal.upper ^= 1;
  bth.reserved6 |= seal.upper;
  bth.reserved7 |= seal.lower;
  if (words.has("copy")) bth.reserved7 |= static_cast<uint8_t>(words.number("copy"));
}

std::optional<std::string> compare_seal(const wire::Bth& bth, const PacketWords& words, wire::Seal seal) {
  if (words.has("copy") && wire::copy_of(bth) != words.number("copy")) {
    return fmt::format("   (the copy is {})", wire::copy_of(bth));
  }
  if (!words.has("seal")) return std::nullopt;
  if (words.own.at("seal") == "none") seal = {};
  return wire::Seal::of(bth) == seal ? std::nullopt : std::optional<std::string>("   (the seal differs)");
}

}  // namespace

Frame build_frame(const ScriptLine& line, const Symbols& symbols, const Wiring& wiring, const ResolveVa& resolve) {
  const PacketWords words(
      line, symbols,
      {"bad_icrc", "cut", "pad", "tver", "raw_opcode", "from", "to", "stream", "data", "vlan", "ecn", "seal", "copy"},
      wiring.local_qpn);
  TextPacket text = parse_text(line, words.packet);
  set_seal(text.packet.bth, words, wiring.peer_seal);
  EndpointOptions source = wiring.peer;
  if (words.has("from")) source.gid = parse_ipv4(words.own.at("from"));
  wire::Route route = make_route(source, wiring.local);
  if (words.has("to")) route.dgid = parse_ipv4(words.own.at("to"));
  if (words.has("vlan")) route.vlan = static_cast<uint16_t>(words.number("vlan"));
  if (words.has("ecn")) route.traffic_class = static_cast<uint8_t>(words.number("ecn"));
  std::vector<std::byte> payload(text.payload_length);
  fill_pattern(payload, words.has("stream") ? words.number("stream") : text.packet.bth.psn.value());
  if (!text.content.empty()) payload = text.content;
  if (words.has("data")) {
    const std::byte* from = resolve(words.number("data"), payload.size());
    if (from == nullptr) throw ScriptError{line.number, "data= names bytes outside every region"};
    std::memcpy(payload.data(), from, payload.size());
  }
  Frame frame(wire::kMaxHeaderBytes + payload.size() + 8);
  frame.resize(encode(frame, text.packet, route, payload));
  require(!frame.empty(), fmt::format("encode failed for: {}", line.text));
  spoil(frame, words);
  return frame;
}

std::string describe(const Frame& frame) {
  const auto packet = wire::parse(frame);
  return packet ? wire::to_text(*packet) : fmt::format("a frame that does not parse: {}", wire::name(packet.error()));
}

std::optional<std::string> mismatch(const ScriptLine& line, const Symbols& symbols, const Wiring& wiring,
                                    const Frame& frame, const ResolveVa& resolve) {
  const PacketWords words(line, symbols, {"!ack_req", "!se", "!answer", "!dup", "data", "tos", "seal", "copy"},
                          wiring.peer_qpn);
  const std::string expected = to_text(parse_text(line, words.packet));
  const auto packet = wire::parse(frame);
  if (!packet) return describe(frame);
  const std::string actual = wire::to_text(*packet);
  const std::vector<std::string> expected_words = split(expected);
  const std::vector<std::string> actual_words = split(actual);
  // Transport and operation come first; then whatever the line mentions, and an AETH's kind.
  if (expected_words[0] != actual_words[0] || expected_words[1] != actual_words[1]) return actual;
  std::vector<std::string> keys{"qp"};
  if (wire::as_rc(packet->bth.opcode) == wire::Opcode::rc_ack) keys.insert(keys.end(), {"syndrome", "code"});
  for (const std::string& word : words.mentioned) {
    const bool flag = word == "ack_req" || word == "se" || word == "answer" || word == "dup";
    if (word.find('=') != std::string::npos || flag) keys.push_back(key_of(word));
  }
  for (const std::string& key : keys) {
    if (lookup(expected_words, key) != lookup(actual_words, key)) return actual + "   (" + key + " differs)";
  }
  for (const auto& [key, value] : words.own) {
    if (key[0] == '!' && has_key(actual_words, key.substr(1))) return actual + "   (" + key.substr(1) + " is set)";
  }
  if (const auto wrong = compare_seal(packet->bth, words, wiring.local_seal)) return actual + *wrong;
  if (words.has("tos") && route_of(*packet).traffic_class != words.number("tos")) {
    return actual + fmt::format("   (tos is {:#x})", route_of(*packet).traffic_class);
  }
  if (words.has("data")) {
    const std::byte* want = resolve(words.number("data"), packet->payload.size());
    if (want == nullptr) throw ScriptError{line.number, "data= names bytes outside every region"};
    if (!std::equal(packet->payload.begin(), packet->payload.end(), want)) return actual + "   (payload differs)";
  }
  return std::nullopt;
}

}  // namespace uroce::test
