// The work requests of one ibv_wr_start() .. ibv_wr_complete().
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <uroce/verbs/work_requests.h>

namespace uroce::dropin {

/// Collects requests with their entries and inline bytes. Its memory grows to the largest list's need and stays. After
/// the first fault the list takes no more requests and posts none.
class WrList {
 public:
  /// The most that one request of the queue pair carries.
  void set_limits(uint32_t max_sge, uint32_t max_inline) {
    max_sge_ = max_sge;
    max_inline_ = max_inline;
  }

  void clear();
  void fail(int code) {
    if (error_ == 0) error_ = code;
  }
  int error() const { return error_; }

  /// Begins a request.
  SendRequest& add(const SendRequest& request);
  /// The request that the setters change; null after a fault or before the first request.
  SendRequest* current() { return error_ == 0 && !requests_.empty() ? &requests_.back() : nullptr; }
  void set_sges(std::span<const Sge> sges);
  /// Makes the request an inline one; append_inline() adds its bytes.
  void begin_inline();
  void append_inline(const void* bytes, std::size_t length);

  /// The entries of all requests.
  std::span<Sge> sges() { return sges_; }
  /// The requests, with their spans set. Valid until the list changes.
  std::span<const SendRequest> requests();

 private:
  struct Payload {
    std::size_t first_sge, sges, first_byte, bytes;
  };
  std::vector<SendRequest> requests_;
  std::vector<Payload> payloads_;
  std::vector<Sge> sges_;
  std::vector<std::byte> bytes_;
  SendRequest none_{};
  uint32_t max_sge_ = 0;
  uint32_t max_inline_ = 0;
  int error_ = 0;
};

}  // namespace uroce::dropin
