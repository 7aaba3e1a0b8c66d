#include "perf/receiver.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "perf/status.h"
#include "perf/verify.h"

namespace uroce::perf {

Receiver::Receiver(Endpoint& endpoint, const Options& options, uint32_t direction)
    : endpoint_(endpoint),
      options_(options),
      plan_(receive_plan(options)),
      direction_(direction),
      cq_(endpoint.recv_cq()) {
  for (uint32_t i = 0; i < options.qps; ++i) {
    streams_.push_back({&endpoint.qps()[i], endpoint.exposed(i), 0, 0, 0, 0});
  }
}

bool Receiver::begin(uint64_t size) {
  size_ = size;
  received_ = verified_ = 0;
  for (uint32_t i = 0; i < streams_.size(); ++i) {
    streams_[i].received = 0;
    if (!top_up(streams_[i], i)) return false;
  }
  return true;
}

bool Receiver::top_up(QpStream& stream, uint32_t index) {
  while (stream.posted < plan_.depth) {
    const Sge sge{reinterpret_cast<uintptr_t>(stream.memory + stream.post_slot * plan_.stride),
                  static_cast<uint32_t>(plan_.capacity), endpoint_.lkey()};
    const int error = stream.qp->post_recv({index, {&sge, 1}});
    if (error == ENOMEM && stream.posted > 0) return true;  // the next message makes room
    if (error != 0) {
      problem_ = fmt::format("QP {:#x} refuses a receive of {} bytes: {}", stream.qp->qpn(), plan_.capacity,
                             std::strerror(error));
      return false;
    }
    ++stream.posted;
    if (++stream.post_slot == plan_.slots) stream.post_slot = 0;
  }
  return true;
}

Step Receiver::step() {
  const std::size_t count = cq_.poll(completions_);
  for (std::size_t i = 0; i < count; ++i) {
    if (!take(completions_[i])) return Step::failed;
  }
  return count > 0 ? Step::progress : Step::idle;
}

bool Receiver::take(const Completion& completion) {
  if (completion.status != WcStatus::success) {
    problem_ = explain(completion, endpoint_, options_);
    return false;
  }
  const auto index = static_cast<uint32_t>(completion.wr_id);
  QpStream& stream = streams_[index];
  if (completion.byte_len != size_) {
    problem_ =
        fmt::format("QP {:#x} received {} bytes where {} were sent", stream.qp->qpn(), completion.byte_len, size_);
    return false;
  }
  if (options_.verify) {
    const PatternKey key{direction_, index, stream.received};
    const std::byte* const slot = stream.memory + stream.arrive_slot * plan_.stride;
    if (const auto wrong = check_pattern({slot, size_}, key)) {
      problem_ = describe(*wrong, "SEND", key, size_);
      return false;
    }
    ++verified_;
  }
  if (++stream.arrive_slot == plan_.slots) stream.arrive_slot = 0;
  ++stream.received;
  ++received_;
  --stream.posted;
  return top_up(stream, index);
}

}  // namespace uroce::perf
