// A connection manager whose actions are carried out as each call returns them: `Host`, a class derived from this,
// has send(path, mad) and on_event(message), and both may make any call.
#pragma once

#include <span>
#include <utility>
#include <variant>

#include "cm/ib/ib_cm.h"

namespace uroce::test {

template <class Host>
class CmDriver {
 public:
  explicit CmDriver(const cm::IbCmConfig& config) : cm(config) {}

  Result<uint32_t> connect(const cm::CmRequest& request, Nanos now) {
    auto started = cm.connect(request, now);
    if (!started) return std::unexpected(started.error());
    const uint32_t id = started->id;
    carry_out(std::move(started->actions));
    return id;
  }
  Result<void> accept(uint32_t id, const cm::CmReply& reply, Nanos now) { return carry_out(cm.accept(id, reply, now)); }
  Result<void> ready(uint32_t id, std::span<const std::byte> data, Nanos now) {
    return carry_out(cm.ready(id, data, now));
  }
  Result<void> notify_established(uint32_t id, Nanos now) { return carry_out(cm.notify_established(id, now)); }
  Result<void> reject(uint32_t id, cm::RejReason reason, std::span<const std::byte> info,
                      std::span<const std::byte> data, Nanos now) {
    return carry_out(cm.reject(id, reason, info, data, now));
  }
  Result<void> disconnect(uint32_t id, std::span<const std::byte> data, Nanos now) {
    return carry_out(cm.disconnect(id, data, now));
  }
  void destroy(uint32_t id, Nanos now) { carry_out(cm.destroy(id, now)); }
  void on_mad(const Gid& source, const Gid& destination, std::span<const std::byte> mad, Nanos now) {
    carry_out(cm.on_mad(source, destination, mad, now));
  }
  void poll(Nanos now) {
    while (auto due = cm.poll(now)) carry_out(std::move(*due));
  }

  cm::IbCm cm;

 private:
  void carry_out(cm::CmActions&& actions) {
    auto& host = static_cast<Host&>(*this);
    for (cm::CmAction& action : actions) {
      if (const auto* const mad = std::get_if<cm::OutgoingMad>(&action)) host.send(mad->path, mad->mad);
      if (auto* const event = std::get_if<cm::CmMessage>(&action)) host.on_event(std::move(*event));
      if (auto* const arrival = std::get_if<cm::CmArrival>(&action)) carry_out(cm.admit(std::move(*arrival)));
    }
  }
  Result<void> carry_out(Result<cm::CmActions>&& actions) {
    if (!actions) return std::unexpected(actions.error());
    carry_out(std::move(*actions));
    return {};
  }
};

}  // namespace uroce::test
