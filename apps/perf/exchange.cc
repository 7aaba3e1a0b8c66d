#include "perf/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "perf/json_reader.h"

namespace uroce::perf {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMagic = "uroc";
constexpr std::array<std::string_view, 11> kTypes{"hello",   "ready", "go",     "beat", "stop", "check",
                                                  "checked", "fill",  "filled", "done", "error"};

std::string hex(const Gid& gid) {
  std::string text;
  for (const uint8_t byte : gid.bytes) text += fmt::format("{:02x}", byte);
  return text;
}

Json to_json(const SharedParameters& p) {
  return {{"test", p.test},
          {"size", p.size},
          {"all", p.all},
          {"iters", p.iters},
          {"duration_s", p.duration_s},
          {"qps", p.qps},
          {"bidirectional", p.bidirectional},
          {"verify", p.verify},
          {"atomic_type", p.atomic_type},
          {"mtu", p.mtu},
          {"rdma_cm", p.rdma_cm}};
}

Json to_json(const Hello& h) {
  Json qps = Json::array();
  for (const QpAddress& qp : h.qps) qps.push_back({qp.qpn, qp.psn});
  return {{"parameters", to_json(h.parameters)},
          {"gid", hex(h.gid)},
          {"port_mtu", h.port_mtu},
          {"reads", h.reads},
          {"rkey", h.rkey},
          {"remote_base", h.remote_base},
          {"remote_bytes", h.remote_bytes},
          {"cm_port", h.cm_port},
          {"device", h.device},
          {"qps", std::move(qps)}};
}

Json to_json(const SizeReport& r) {
  const LatencyReport& l = r.latency;
  return {{"size", r.size},         {"iterations", r.iterations},
          {"seconds", r.seconds},   {"peak_rate", r.peak_rate},
          {"verified", r.verified}, {"t_min", l.min},
          {"t_max", l.max},         {"t_typical", l.typical},
          {"t_avg", l.average},     {"t_stdev", l.stdev},
          {"t_99", l.p99},          {"t_99_9", l.p999}};
}

SharedParameters read_parameters(const Json& json, std::string& problem) {
  JsonReader in(json, problem);
  SharedParameters p;
  p.test = in.text("test");
  p.size = in.number("size", kMaxMessage);
  p.all = in.flag("all");
  p.iters = in.number("iters");
  p.duration_s = in.real("duration_s");
  p.qps = in.number32("qps", kMostQps);
  p.bidirectional = in.flag("bidirectional");
  p.verify = in.flag("verify");
  p.atomic_type = in.text("atomic_type");
  p.mtu = in.number32("mtu", 4096);
  p.rdma_cm = in.flag("rdma_cm");
  return p;
}

Hello read_hello(const Json& json, std::string& problem) {
  constexpr uint32_t k24Bits = 0xffffff;
  JsonReader in(json, problem);
  Hello h;
  if (const Json* parameters = in.find("parameters")) h.parameters = read_parameters(*parameters, problem);
  h.gid = in.gid("gid");
  h.port_mtu = in.number32("port_mtu", 4096);
  if (h.port_mtu < 256) in.bad("\"port_mtu\" is below 256");
  h.reads = in.number32("reads", kMaxRdAtomic);
  h.rkey = in.number32("rkey");
  h.remote_base = in.number("remote_base", ~uint64_t{0});
  h.remote_bytes = in.number("remote_bytes");
  h.cm_port = static_cast<uint16_t>(in.number32("cm_port", UINT16_MAX));
  h.device = in.text("device");
  const Json* qps = in.find("qps");
  if (qps == nullptr || !qps->is_array() || qps->size() > kMostQps) {
    in.bad("\"qps\" is not a list of at most 65536 QPs");
    return h;
  }
  for (const Json& qp : *qps) {
    if (!qp.is_array() || qp.size() != 2 || !qp[0].is_number_unsigned() || !qp[1].is_number_unsigned() ||
        qp[0].get<uint64_t>() > k24Bits || qp[1].get<uint64_t>() > k24Bits) {
      in.bad("\"qps\" contains something other than a QPN and a PSN of 24 bits");
      return h;
    }
    h.qps.push_back({qp[0].get<uint32_t>(), qp[1].get<uint32_t>()});
  }
  return h;
}

SizeReport read_report(const Json& json, std::string& problem) {
  JsonReader in(json, problem);
  SizeReport r;
  r.size = in.number("size", kMaxMessage);
  r.iterations = in.number("iterations");
  r.seconds = in.real("seconds");
  r.peak_rate = in.real("peak_rate");
  r.verified = in.number("verified");
  r.latency = {in.real("t_min"),   in.real("t_max"), in.real("t_typical"), in.real("t_avg"),
               in.real("t_stdev"), in.real("t_99"),  in.real("t_99_9")};
  return r;
}

Round read_round(const Json& json, std::string& problem) {
  JsonReader in(json, problem);
  return {in.number("size", kMaxMessage), in.number("first"), in.number("count")};
}

Message read_message(const Json& json, std::string& problem) {
  JsonReader in(json, problem);
  Message m;
  if (const uint64_t version = in.number("version"); problem.empty() && version != kExchangeVersion) {
    in.bad(fmt::format("it has version {}, but this side has version {}; install the same release on both sides",
                       version, kExchangeVersion));
    return m;
  }
  const std::string type = in.text("type");
  const auto known = std::find(kTypes.begin(), kTypes.end(), type);
  if (known == kTypes.end()) {
    in.bad(fmt::format("the type \"{}\" is unknown", type));
    return m;
  }
  m.type = static_cast<MessageType>(known - kTypes.begin());
  switch (m.type) {
    case MessageType::hello: m.hello = read_hello(json, problem); break;
    case MessageType::go: m.size = in.number("size", kMaxMessage); break;
    case MessageType::stop: m.count = in.number("count"); break;
    case MessageType::check:
    case MessageType::fill: m.round = read_round(json, problem); break;
    case MessageType::done: m.report = read_report(json, problem); break;
    case MessageType::error: m.text = in.text("text"); break;
    case MessageType::ready:
    case MessageType::checked:
    case MessageType::beat:
    case MessageType::filled: break;
  }
  return m;
}

/// Checks the nesting of a JSON text without parsing it, because a hostile text must not cause recursion.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

std::unexpected<Error> garbled(const std::string& what) {
  return fail(EPROTO, fmt::format("cannot use the peer's message: {}", what));
}

}  // namespace

SharedParameters SharedParameters::of(const Options& o) {
  return {test_name(o.test),
          o.size,
          o.all,
          o.timed() ? 0 : o.iters,
          o.duration_s,
          o.qps,
          o.bidirectional,
          o.verify,
          std::string(atomic_name(o.atomic_type)),
          o.mtu,
          o.rdma_cm};
}

std::optional<std::string> difference(const SharedParameters& mine, const SharedParameters& peer) {
  const auto differ = [](std::string_view option, const auto& ours, const auto& theirs) {
    return fmt::format("{} is {} here and {} on the other side; give both sides the same", option, ours, theirs);
  };
  if (mine.test != peer.test) return differ("the test", mine.test, peer.test);
  if (mine.all != peer.all) return differ("-a", mine.all, peer.all);
  if (mine.size != peer.size) return differ("-s", mine.size, peer.size);
  if (mine.duration_s != peer.duration_s) return differ("-D", mine.duration_s, peer.duration_s);
  if (mine.iters != peer.iters) return differ("-n", mine.iters, peer.iters);
  if (mine.qps != peer.qps) return differ("-q", mine.qps, peer.qps);
  if (mine.bidirectional != peer.bidirectional) return differ("-b", mine.bidirectional, peer.bidirectional);
  if (mine.verify != peer.verify) return differ("--verify", mine.verify, peer.verify);
  if (mine.atomic_type != peer.atomic_type) return differ("-A", mine.atomic_type, peer.atomic_type);
  if (mine.mtu != 0 && peer.mtu != 0 && mine.mtu != peer.mtu) return differ("-m", mine.mtu, peer.mtu);
  if (mine.rdma_cm != peer.rdma_cm) return differ("-R", mine.rdma_cm, peer.rdma_cm);
  return std::nullopt;
}

std::string encode(const Message& m) {
  Json json = Json::object();
  switch (m.type) {
    case MessageType::hello: json = to_json(m.hello); break;
    case MessageType::go: json["size"] = m.size; break;
    case MessageType::stop: json["count"] = m.count; break;
    case MessageType::check:
    case MessageType::fill: json = {{"size", m.round.size}, {"first", m.round.first}, {"count", m.round.count}}; break;
    case MessageType::done: json = to_json(m.report); break;
    case MessageType::error: json["text"] = m.text.substr(0, kMaxTextBytes); break;
    case MessageType::ready:
    case MessageType::checked:
    case MessageType::beat:
    case MessageType::filled: break;
  }
  json["version"] = kExchangeVersion;
  json["type"] = kTypes[static_cast<std::size_t>(m.type)];
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string framed(kMagic);
  for (int shift = 24; shift >= 0; shift -= 8) framed.push_back(static_cast<char>(text.size() >> shift));
  return framed + text;
}

Result<Decoded> decode(std::span<const char> bytes) {
  const std::size_t compared = std::min(bytes.size(), kMagic.size());
  if (std::string_view(bytes.data(), compared) != kMagic.substr(0, compared)) {
    return garbled("it does not start with \"uroc\"; is another program on this port? Choose one with -p");
  }
  if (bytes.size() < kPrefixBytes) return Decoded{};
  uint32_t length = 0;
  for (std::size_t i = 4; i < kPrefixBytes; ++i) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  if (length > kMaxMessageBytes) {
    return garbled(fmt::format("it announces {} bytes, more than the {} allowed", length, kMaxMessageBytes));
  }
  if (bytes.size() < kPrefixBytes + length) return Decoded{};
  const std::string_view text(bytes.data() + kPrefixBytes, length);
  if (too_deep(text)) return garbled(fmt::format("it is nested deeper than {} levels", kMaxDepth));
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return garbled("it is not a JSON object");
  std::string problem;
  Message message = read_message(json, problem);
  if (!problem.empty()) return garbled(problem);
  return Decoded{kPrefixBytes + length, std::move(message)};
}

}  // namespace uroce::perf
