// Two ports joined back to back, each with engines and port queues that the test polls.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "memory/region_table.h"
#include "net/neighbours.h"
#include "pmd_glue/own_neighbourhood.h"
#include "pmd_glue/port_queue.h"
#include "pmd_glue/service_thread.h"
#include "ports.h"

namespace uroce::glue {

struct NoEvents final : transport::EngineEvents {
  void on_completion_event(uint32_t) override {}
  void on_async_event(AsyncEventType, uint32_t) override {}
  void on_wrong_key(const Gid&, uint32_t) override {}
  void on_end(const transport::QpEnd&) override {}
};

inline net::AddressTable addresses(const char* text, const EthAddr& mac) {
  auto list = net::parse_interface_addresses(text).value();
  list.push_back({net::link_local(mac), 64});
  return {std::move(list), {}};
}

/// A port with engines and port queues, polled by the test.
struct Node {
  Node(Port& p, const char* address, uint32_t count, ServiceThread& service, const TscClock& c, const char* name,
       bool whole_frames)
      : port(p), clock(c), handovers(name, count) {
    neighbourhood = std::make_unique<OwnNeighbourhood>(port, uint16_t{0}, addresses(address, port.mac()), count,
                                                       service.waker(), clock, uint64_t{1});
    if (port.queues() < count) shared = SharedQueue::make(std::string(name) + "-tx", SOCKET_ID_ANY).value();
    for (uint32_t i = 0; i < count; ++i) {
      transport::EngineConfig config;
      config.index = i;
      config.index_bits = static_cast<uint32_t>(std::bit_width(count - 1));
      config.max_qps = 64;
      auto& engine = engines.emplace_back(std::make_unique<transport::Engine>(config, regions, events));
      engine->set_gids(TestFrame::destinations());
      queues.push_back(std::make_unique<PortQueue>(PortQueueParts{.port = port,
                                                                  .handover = *handovers.handover,
                                                                  .neighbourhood = *neighbourhood,
                                                                  .shared = shared.get(),
                                                                  .engine = *engine,
                                                                  .whole_frames = whole_frames}));
    }
  }
  bool round() {
    bool worked = false;
    for (auto& queue : queues) worked = queue->round(clock) || worked;
    return worked;
  }
  uint64_t dropped(uint32_t engine, wire::Drop reason) const {
    return engines[engine]->counters().drops[static_cast<std::size_t>(reason)].get();
  }
  uint64_t unknown_qps(uint32_t engine) const { return dropped(engine, wire::Drop::qp_unknown); }
  uint64_t counter(uint32_t queue, std::string_view name) const {
    for (const auto& [key, value] : queues[queue]->counter_list()) {
      if (key == name) return value;
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }

  Port& port;
  const TscClock& clock;
  NoEvents events;
  memory::RegionTable regions{16, 1};
  Engines handovers;
  std::unique_ptr<Neighbourhood> neighbourhood;
  std::unique_ptr<SharedQueue> shared;
  std::vector<std::unique_ptr<transport::Engine>> engines;
  std::vector<std::unique_ptr<PortQueue>> queues;
};

inline PairOptions pair_options(uint32_t engines, uint32_t queues) {
  PairOptions options;
  options.queues = queues;
  options.slots = 256;
  options.port.engines = engines;
  return options;
}

enum class Frames : uint8_t { whole, local };

/// `local`: as a stack sets them up whose ports are joined back to back.
struct TwoNodes {
  explicit TwoNodes(uint32_t engines = 1, uint32_t queues = 1, Frames frames = Frames::whole)
      : pair(pair_options(engines, queues)),
        a(*pair.a, "192.0.2.1/24,2001:db8::1/64", engines, service, clock, "node-a", frames == Frames::whole),
        b(*pair.b, "192.0.2.2/24,2001:db8::2/64", engines, service, clock, "node-b", frames == Frames::whole) {
    for (uint32_t q = 0; q < queues && frames == Frames::local; ++q) {
      a.queues[q]->join(*b.queues[q], *pair.rings().sent(0, q));
      b.queues[q]->join(*a.queues[q], *pair.rings().sent(1, q));
    }
  }
  void round() {
    a.round();
    b.round();
    a.neighbourhood->step(false);
    b.neighbourhood->step(false);
  }

  PortPair pair;
  TscClock clock;
  ServiceThread service{clock};
  Node a, b;
};

/// Sends a whole frame: headers only; the sink computes the ICRC.
inline void send(PortQueue& queue, uint32_t dest_qpn) {
  TestFrame f(dest_qpn, 0, {});
  ASSERT_GT(queue.sink().room(), 0u);
  queue.sink().send({&f.frame, 1});
}

}  // namespace uroce::glue
