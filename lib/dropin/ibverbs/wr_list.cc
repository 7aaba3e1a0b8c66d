#include "dropin/ibverbs/wr_list.h"

#include <cerrno>

namespace uroce::dropin {

void WrList::clear() {
  requests_.clear();
  payloads_.clear();
  sges_.clear();
  bytes_.clear();
  error_ = 0;
}

SendRequest& WrList::add(const SendRequest& request) {
  if (error_ != 0) return none_;
  payloads_.push_back({sges_.size(), 0, bytes_.size(), 0});
  return requests_.emplace_back(request);
}

void WrList::set_sges(std::span<const Sge> sges) {
  if (current() == nullptr) return fail(EINVAL);
  if (sges.size() > max_sge_) return fail(EINVAL);
  Payload& payload = payloads_.back();
  payload.first_sge = sges_.size();
  payload.sges = sges.size();
  sges_.insert(sges_.end(), sges.begin(), sges.end());
}

void WrList::begin_inline() {
  SendRequest* request = current();
  if (request == nullptr) return fail(EINVAL);
  request->flags |= SendFlag::inline_data;
  payloads_.back().first_byte = bytes_.size();
  payloads_.back().bytes = 0;
}

void WrList::append_inline(const void* bytes, std::size_t length) {
  if (current() == nullptr) return;
  Payload& payload = payloads_.back();
  if (length > max_inline_ - payload.bytes) return fail(EINVAL);
  const auto* from = static_cast<const std::byte*>(bytes);
  bytes_.insert(bytes_.end(), from, from + length);
  payload.bytes += length;
}

std::span<const SendRequest> WrList::requests() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const Payload& payload = payloads_[i];
    requests_[i].sges = {sges_.data() + payload.first_sge, payload.sges};
    requests_[i].inline_data = {bytes_.data() + payload.first_byte, payload.bytes};
  }
  return requests_;
}

}  // namespace uroce::dropin
