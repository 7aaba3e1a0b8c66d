#include "tests/script/cm/mad_line.h"

#include <cerrno>

#include <fmt/format.h>

#include <type_traits>

#include "net/address.h"
#include "tests/script/cm/mad_fields.h"

namespace uroce::test {

namespace {

using Span = std::span<const std::byte>;

/// Puts the values of a line into a message's fields.
struct Fill {
  Words& words;
  std::vector<std::vector<std::byte>>& storage;  ///< of the spans

  template <class T>
  void operator()(const char* name, T& field) {
    if constexpr (std::is_same_v<T, Span>) {
      if (const auto text = words.text(name)) field = storage.emplace_back(bytes_of(*text));
    } else if constexpr (std::is_same_v<T, Gid>) {
      if (const auto text = words.text(name)) field = gid_from(words, *text);
    } else {
      if (const auto value = words.number(name)) field = static_cast<T>(*value);
    }
  }
};

/// Compares a message with the values of a line.
struct Compare {
  Words& words;
  std::string difference{};

  template <class T>
  void operator()(const char* name, T& field) {
    if constexpr (std::is_same_v<T, Span>) {
      const auto text = words.text(name);
      if (text && text_of(field) != *text) difference += fmt::format(" {}='{}'", name, text_of(field));
    } else if constexpr (std::is_same_v<T, Gid>) {
      const auto text = words.text(name);
      if (text && gid_from(words, *text) != field) difference += fmt::format(" {}={}", name, net::to_text(field));
    } else {
      const auto value = words.number(name);
      const auto actual = static_cast<uint64_t>(field);
      if (value && *value != actual) difference += fmt::format(" {}={:#x}", name, actual);
    }
  }
};

/// Every field that is not zero, as text.
struct Print {
  std::string text{};

  template <class T>
  void operator()(const char* name, T& field) {
    if constexpr (std::is_same_v<T, Span>) {
      if (!text_of(field).empty()) text += fmt::format(" {}='{}'", name, text_of(field));
    } else if constexpr (std::is_same_v<T, Gid>) {
      text += fmt::format(" {}={}", name, net::to_text(field));
    } else if (static_cast<uint64_t>(field) != 0) {
      text += fmt::format(" {}={:#x}", name, static_cast<uint64_t>(field));
    }
  }
};

void set_defaults(cm::ReqMad& m, const ReceivedMad& to, const PeerDefaults& peer) {
  m.service_id = peer.service;
  m.qpn = 0x22;
  m.psn = 200;
  m.remote_cm_timeout = m.local_cm_timeout = 14;
  m.max_cm_retries = peer.retries;
  m.ack_timeout = peer.ack_timeout;
  m.pkey = 0xffff;
  m.mtu = 3;
  m.local_gid = to.source;
  m.remote_gid = to.destination;
}
void set_defaults(cm::RepMad& m, const ReceivedMad&, const PeerDefaults&) {
  m.qpn = 0x22;
  m.psn = 200;
}
void set_defaults(cm::SidrReqMad& m, const ReceivedMad&, const PeerDefaults& peer) {
  m.service_id = peer.service;
  m.pkey = 0xffff;
}
void set_defaults(cm::DreqMad& m, const ReceivedMad&, const PeerDefaults&) { m.remote_qpn = 0x11; }
template <class Message>
void set_defaults(Message&, const ReceivedMad&, const PeerDefaults&) {}

}  // namespace

Gid peer_gid() { return Gid::from_ipv4(0x0a000002); }

Gid gid_from(const Words& words, const std::string& text) {
  const auto gid = net::parse_address(text);
  if (!gid) words.error(gid.error().text);
  return *gid;
}

ReceivedMad make_received(const ScriptLine& line, const Symbols& symbols, const Gid& ours, const PeerDefaults& peer) {
  Words words(line, symbols);
  const std::string kind = words.bare();
  ReceivedMad received{.source = peer_gid(), .destination = ours};
  if (const auto from = words.text("from")) received.source = gid_from(words, *from);
  if (const auto to = words.text("to")) received.destination = gid_from(words, *to);
  const uint64_t tid = words.number_or("tid", 1);
  const auto modifier = static_cast<uint32_t>(words.number_or("modifier", 0));
  const bool known = any_message([&](const char* name, auto message) {
    if (kind != name) return false;
    std::vector<std::vector<std::byte>> storage;
    set_defaults(message, received, peer);
    fields(message, Fill{words, storage});
    const cm::Mad mad = cm::make_mad(tid, message, modifier);
    received.bytes.assign(mad.begin(), mad.end());
    return true;
  });
  if (!known) words.error(fmt::format("'{}' is no message", kind));
  static constexpr std::pair<const char*, std::size_t> kHeaderBytes[] = {
      {"base", 0}, {"class", 1}, {"version", 2}, {"method", 3}, {"attribute", 17}};
  for (const auto& [name, at] : kHeaderBytes) {
    if (const auto value = words.number(name)) received.bytes[at] = static_cast<std::byte>(*value);
  }
  if (const auto length = words.number("cut")) received.bytes.resize(*length);
  words.done();
  return received;
}

void check_sent(const ScriptLine& line, const Symbols& symbols, const SentMad& sent, const Gid& ours) {
  Words words(line, symbols);
  const std::string kind = words.bare();
  const auto header = cm::parse_header(sent.mad);
  const auto to = words.text("to");
  const auto tid = words.number("tid");
  const auto modifier = words.number("modifier");
  const bool matched = any_message([&](const char* name, auto message) {
    using Message = decltype(message);
    if (kind != name || header->attribute != Message::kAttribute) return false;
    message = Message::load(sent.mad.data() + cm::kMadHeaderBytes);
    Compare compare{words};
    fields(message, compare);
    return compare.difference.empty();
  });
  words.done();
  if (!matched || sent.path.sgid != ours || sent.path.dgid != (to ? gid_from(words, *to) : peer_gid()) ||
      (tid && *tid != header->transaction_id) || (modifier && *modifier != header->modifier)) {
    words.error(fmt::format("sent instead: {}", describe(sent)));
  }
}

std::string describe(const SentMad& sent) {
  const auto header = cm::parse_header(sent.mad);
  std::string text = "a message of its own";
  any_message([&](const char* name, auto message) {
    using Message = decltype(message);
    if (!header || header->attribute != Message::kAttribute) return false;
    message = Message::load(sent.mad.data() + cm::kMadHeaderBytes);
    Print print;
    fields(message, print);
    text = fmt::format("{}{} to={} tid={:#x}", name, print.text, net::to_text(sent.path.dgid), header->transaction_id);
    return true;
  });
  return text;
}

void check_result(const Words& words, const std::optional<std::string>& expected, const Result<void>& result) {
  if (result) {
    if (expected) words.error("it worked");
    return;
  }
  static constexpr std::pair<const char*, int> kErrors[] = {{"EINVAL", EINVAL}, {"ENOMEM", ENOMEM}};
  for (const auto& [name, code] : kErrors) {
    if (expected == name && result.error().code == code) return;
  }
  words.error(fmt::format("error {}: {}", result.error().code, result.error().text));
}

}  // namespace uroce::test
