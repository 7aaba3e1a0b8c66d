#include "message/succession_link.h"

#include <algorithm>
#include <cerrno>
#include <string>

namespace uroce::message {
namespace {

std::string name_of(Step step) {
  switch (step) {
    case Step::belongings: return "its belongings";
    case Step::ready: return "ready";
    case Step::estate: return "the clients' estate";
    case Step::bequeathed: return "the end of the clients' estate";
    case Step::imported: return "imported";
    case Step::go: return "go";
    case Step::failed: return "a failure";
    case Step::facts: return "the facts of its devices";
  }
  return "step " + std::to_string(static_cast<unsigned>(step));
}

}  // namespace

Result<void> SuccessionLink::send(Step step, std::span<const std::byte> body, std::span<const int> fds) {
  std::vector<std::byte> bytes;
  encode(bytes, StepHeader{.step = step});
  bytes.insert(bytes.end(), body.begin(), body.end());
  return connection_->send(bytes, fds);
}

void SuccessionLink::fail(const Error& why) {
  std::vector<std::byte> bytes;
  std::string text = why.text;
  text.resize(std::min<std::size_t>(text.size(), kMaxElements));
  encode(bytes, StepHeader{.step = Step::failed, .error = why.code, .text = std::move(text)});
  (void)connection_->send(bytes, {});
}

Result<SuccessionLink::Packet> SuccessionLink::receive(std::initializer_list<Step> expected,
                                                       std::chrono::milliseconds patience) {
  const std::string wanted = name_of(*expected.begin());
  if (!connection_->readable_within(patience)) {
    return uroce::fail(
        ETIMEDOUT, "the other daemon did not say '" + wanted + "' within " + std::to_string(patience.count()) + " ms");
  }
  auto packet = connection_->receive();
  if (!packet) {
    return uroce::fail(packet.error().code, "the other daemon did not say '" + wanted + "': " + packet.error().text);
  }
  Reader reader(packet->bytes);
  StepHeader header;
  reader(header);
  if (reader.good() && header.step == Step::failed) {
    return uroce::fail(header.error != 0 ? header.error : EIO, header.text);
  }
  if (!reader.good() || std::ranges::find(expected, header.step) == expected.end()) {
    return uroce::fail(EPROTO, "the other daemon said " +
                                   (reader.good() ? "'" + name_of(header.step) + "'" : "nonsense") + " in place of '" +
                                   wanted + "'");
  }
  const auto rest = reader.rest();
  return Packet{.step = header.step, .body = {rest.begin(), rest.end()}, .fds = std::move(packet->fds)};
}

Result<void> SuccessionLink::send_belongings(const Belongings& belongings) {
  const auto& all = belongings.list();
  std::size_t at = 0;
  do {
    BelongingNames names;
    std::vector<int> fds;
    for (; at < all.size() && fds.size() < kMaxFds; ++at) {
      names.names.push_back(all[at].first);
      fds.push_back(all[at].second.get());
    }
    names.last = at == all.size();
    std::vector<std::byte> body;
    encode(body, names);
    if (auto sent = send(Step::belongings, body, fds); !sent) return sent;
  } while (at < all.size());
  return {};
}

Result<Belongings> SuccessionLink::receive_belongings() {
  Belongings out;
  for (;;) {
    auto packet = receive({Step::belongings}, kStepPatience);
    if (!packet) return std::unexpected(packet.error());
    BelongingNames names;
    if (!decode(packet->body, names) || names.names.size() != packet->fds.size()) {
      return uroce::fail(EPROTO, "the running daemon sent " + std::to_string(packet->fds.size()) +
                                     " descriptors whose names do not decode");
    }
    for (std::size_t i = 0; i < names.names.size(); ++i) out.add(std::move(names.names[i]), std::move(packet->fds[i]));
    if (names.last) return out;
  }
}

}  // namespace uroce::message
