#include "dropin/rsocket/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "dropin/common/report.h"

namespace uroce::dropin::rsocket {

namespace {

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

int Buffer::make(ibv_pd* pd, std::size_t bytes, int access) {
  reset();
  void* pages = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return -1;
  mr_ = ibv_reg_mr(pd, pages, bytes, access);
  if (mr_ == nullptr) {
    const int reason = errno;
    munmap(pages, whole_pages(bytes));
    return minus_one(reason);
  }
  data_ = static_cast<std::byte*>(pages);
  return 0;
}

void Buffer::reset() {
  if (data_ == nullptr) return;
  const std::size_t bytes = mr_->length;
  ibv_dereg_mr(mr_);
  munmap(data_, whole_pages(bytes));
  data_ = nullptr;
  mr_ = nullptr;
}

}  // namespace uroce::dropin::rsocket
