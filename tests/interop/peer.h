// One end of the interop tests: verbs objects that a test names by number, on one device.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include <infiniband/verbs.h>

#include "memory.h"

namespace interop {

using Json = nlohmann::json;

struct Deleter {
  void operator()(ibv_context* object) const { ibv_close_device(object); }
  void operator()(ibv_pd* object) const { ibv_dealloc_pd(object); }
  void operator()(ibv_mr* object) const { ibv_dereg_mr(object); }
  void operator()(ibv_cq* object) const { ibv_destroy_cq(object); }
  void operator()(ibv_qp* object) const { ibv_destroy_qp(object); }
  void operator()(ibv_ah* object) const { ibv_destroy_ah(object); }
};
template <typename T>
using Owned = std::unique_ptr<T, Deleter>;

// Registered memory. Bytes that no test meant to be written keep their fill, so that a stray store is seen.
struct Region {
  std::unique_ptr<Memory> memory;
  std::span<std::uint8_t> bytes;
  Owned<ibv_mr> mr;
};

struct QueuePair {
  Owned<ibv_cq> send_cq;
  Owned<ibv_cq> recv_cq;
  Owned<ibv_qp> qp;
};

// Answers one request after the other. A verb that fails throws std::runtime_error, which names it.
class Peer {
 public:
  // Opens the device of that name.
  explicit Peer(const char* device);

  // `request` has the call's name as "call", and its arguments.
  Json answer(const Json& request);

 private:
  Json about();
  Json region(const Json& request);
  Json fill(const Json& request);
  Json check(const Json& request);
  Json word(const Json& request);
  Json qp(const Json& request);
  Json connect(const Json& request);
  Json ah(const Json& request);
  Json recv(const Json& request);
  Json post(const Json& request);
  Json post_placement(const Json& request);
  Json poll(const Json& request);
  Json state(const Json& request);
  Json events(const Json& request);
  Json destroy(const Json& request);

  ibv_ah_attr address(const Json& request) const;
  ibv_sge entry(const Json& request) const;

  Owned<ibv_context> context_;
  Owned<ibv_pd> pd_;
  std::map<int, Region> regions_;
  std::map<int, Owned<ibv_ah>> handles_;
  std::map<int, QueuePair> queue_pairs_;
  int next_ = 0;
};

}  // namespace interop
