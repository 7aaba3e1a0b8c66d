// The requests of a queue: those that carry commands, those that are free, and the capsules that wait for a free one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "nvmf/buffer_pool.h"
#include "nvmf/io_runner.h"
#include "nvmf/nvme.h"
#include "nvmf/queue_link.h"

namespace uroce::nvmf {

struct Request;

/// Is told when a request that waited for a buffer has one.
class BufferTaker {
 public:
  virtual void take_buffer(Request& request, std::byte* buffer) = 0;

 protected:
  ~BufferTaker() = default;
};

/// One command from its capsule to the completion of its response.
struct Request final : IoWork, QueueLink::Exchange, BufferPool::Waiter {
  enum class Stage : uint8_t { free, waiting, reading, backend, held, responding };
  void buffer_ready(std::byte* ready) override { taker->take_buffer(*this, ready); }

  BufferTaker* taker = nullptr;
  Request* next_free = nullptr;
  std::byte* buffer = nullptr;  ///< of the pool; null without one
  nvme::Command command{};
  Stage stage = Stage::free;
};

/// A received capsule.
struct Capsule {
  uint16_t slot = 0;
  uint32_t bytes = 0;
};

class Requests {
 public:
  /// `capsules`: how many can wait at once.
  Requests(std::size_t count, std::size_t capsules, IoClient& client, BufferTaker& taker)
      : requests_(count), late_(capsules) {
    for (Request& request : requests_) {
      request.index = static_cast<uint32_t>(&request - requests_.data());
      request.client = &client;
      request.taker = &taker;
      give(request);
    }
  }

  /// A free request, or null.
  Request* take() {
    Request* const request = first_free_;
    if (request != nullptr) first_free_ = request->next_free;
    return request;
  }
  void give(Request& request) {
    request.stage = Request::Stage::free;
    request.next_free = std::exchange(first_free_, &request);
  }

  /// Keeps a capsule for which no request is free: its host's acknowledgements are late.
  void keep(Capsule capsule) { late_[(late_head_ + late_count_++) % late_.size()] = capsule; }
  /// A capsule was kept, and a request is free for it.
  bool may_take_kept() const { return late_count_ != 0 && first_free_ != nullptr; }
  /// The first that was kept.
  Capsule take_kept() {
    const Capsule capsule = late_[late_head_];
    late_head_ = (late_head_ + 1) % static_cast<uint32_t>(late_.size());
    --late_count_;
    return capsule;
  }

  Request& operator[](uint32_t index) { return requests_[index]; }
  auto begin() { return requests_.begin(); }
  auto end() { return requests_.end(); }

 private:
  std::vector<Request> requests_;
  Request* first_free_ = nullptr;
  std::vector<Capsule> late_;  ///< a ring
  uint32_t late_head_ = 0, late_count_ = 0;
};

}  // namespace uroce::nvmf
