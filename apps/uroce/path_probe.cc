#include "uroce/path_probe.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace uroce::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kNap = std::chrono::microseconds(50);
constexpr uint64_t kSend = ~uint64_t{0};

}  // namespace

PathProbe::PathProbe(Context context, ProtectionDomain pd, CompletionQueue cq, QueuePair qp)
    : context_(std::move(context)),
      pd_(std::move(pd)),
      cq_(std::move(cq)),
      memory_((kReceives + 1) * kFrameBytes),
      mr_(pd_.register_memory(memory_.data(), memory_.size(), Access::local_write)),
      qp_(std::move(qp)),
      id_(static_cast<uint16_t>(getpid())) {}

Result<std::unique_ptr<PathProbe>> PathProbe::open(Context context) {
  auto pd = context.create_pd();
  if (!pd) return std::unexpected(pd.error());
  auto cq = context.create_cq(kReceives + 1);
  if (!cq) return std::unexpected(cq.error());
  auto qp = context.create_qp(*pd, *cq, *cq,
                              {.type = QpType::raw_packet, .cap = {.max_send_wr = 1, .max_recv_wr = kReceives}});
  if (!qp) return std::unexpected(qp.error());
  std::unique_ptr<PathProbe> probe(new PathProbe(std::move(context), std::move(*pd), std::move(*cq), std::move(*qp)));
  if (auto started = probe->start(); !started) return std::unexpected(started.error());
  return probe;
}

Result<void> PathProbe::start() {
  if (!mr_) return std::unexpected(mr_.error());
  if (auto ok = qp_.modify({.state = QpState::init}, QpAttrMask(QpAttrBit::state) | QpAttrBit::port); !ok) return ok;
  for (uint64_t slot = 0; slot < kReceives; ++slot) {
    if (!receive(slot)) return fail(EINVAL, "the raw packet queue pair takes no receive");
  }
  for (const QpState state : {QpState::rtr, QpState::rts}) {
    if (auto ok = qp_.modify({.state = state}, QpAttrBit::state); !ok) return ok;
  }
  auto sniffer = qp_.create_flow({.type = FlowType::sniffer});
  if (!sniffer) return std::unexpected(sniffer.error());
  sniffer_.emplace(std::move(*sniffer));
  return {};
}

bool PathProbe::receive(uint64_t slot) {
  const Sge sge = mr_->sge(slot * kFrameBytes, kFrameBytes);
  return qp_.post_recv({.wr_id = slot, .sges = {&sge, 1}}) == 0;
}

bool PathProbe::learn_route(const Gid& from, const Gid& to, std::chrono::nanoseconds limit) {
  return wait_for(limit, [&](std::span<const std::byte> frame) {
    const auto route = net::route_of(frame, from, to);
    if (route) route_ = *route;
    return route.has_value();
  });
}

std::optional<std::chrono::nanoseconds> PathProbe::echo(uint32_t bytes, std::chrono::nanoseconds limit) {
  const auto frame = net::make_echo(route_, id_, ++sequence_, bytes);
  if (frame.size() > kFrameBytes) return std::nullopt;
  constexpr std::size_t kOffset = kReceives * kFrameBytes;
  std::ranges::copy(frame, memory_.begin() + kOffset);
  const Sge sge = mr_->sge(kOffset, static_cast<uint32_t>(frame.size()));
  // The engine may not have taken the echo before, on a machine that stood still.
  const auto until = Clock::now() + limit;
  auto began = Clock::now();
  int error = 0;
  while ((error = qp_.post_send({.wr_id = kSend, .flags = SendFlag::signaled, .sges = {&sge, 1}})) == ENOMEM &&
         began < until) {
    usleep(static_cast<useconds_t>(kNap.count()));
    began = Clock::now();
  }
  if (error != 0) return std::nullopt;
  const bool came = wait_for(limit, [&](std::span<const std::byte> received) {
    return net::answers_echo(received, route_, id_, sequence_, bytes);
  });
  if (!came) return std::nullopt;
  return Clock::now() - began;
}

bool PathProbe::wait_for(std::chrono::nanoseconds limit,
                         const std::function<bool(std::span<const std::byte>)>& wanted) {
  const auto until = Clock::now() + limit;
  // When the time is over, completions that are there already still count.
  for (uint32_t late = 0; late <= kReceives; late += Clock::now() < until ? 0 : 1) {
    Completion completion;
    if (cq_.poll({&completion, 1}) == 0) {
      if (late > 0) return false;
      usleep(static_cast<useconds_t>(kNap.count()));
      continue;
    }
    if (completion.status != WcStatus::success) return false;
    if (completion.wr_id == kSend) continue;
    const std::span frame(memory_.data() + completion.wr_id * kFrameBytes, completion.byte_len);
    const bool found = wanted(frame);
    if (!receive(completion.wr_id)) return false;
    if (found) return true;
  }
  return false;
}

}  // namespace uroce::cli
