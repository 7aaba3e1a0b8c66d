// Dma-bufs: memory of another driver behind a descriptor (Linux, Documentation/driver-api/dma-buf.rst).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <uroce/error.h>

namespace uroce::service {

/// The exporter in the text of a dma-buf's /proc/PID/fdinfo; empty where there is none. The first one counts: a program
/// chooses the buffer's name, which follows, and may write a line of its own into it.
std::string exporter_in(std::string_view fdinfo);

struct Dmabuf {
  uint64_t size = 0;  ///< bytes; never changes
  std::string exporter{};
};

/// Of a descriptor whose file system is that of dma-bufs. Errors: those of lseek(2) and of reading /proc/self/fdinfo.
Result<Dmabuf> describe_dmabuf(int fd);

/// Whether an access waits for nobody and never fails, whatever the buffer's owner does. True for udmabuf alone: it
/// holds each of its pages, and mapping it takes no time.
bool is_steady_exporter(std::string_view exporter);

}  // namespace uroce::service
