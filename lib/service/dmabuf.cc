#include "service/dmabuf.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <unistd.h>

namespace uroce::service {
namespace {

std::unexpected<Error> dmabuf_error(const char* what) {
  const int code = errno;
  return fail(code, fmt::format("cannot register a dma-buf: {}: {}", what, std::strerror(code)));
}

}  // namespace

std::string exporter_in(std::string_view fdinfo) {
  constexpr std::string_view kField = "exp_name:\t";
  const std::size_t at = fdinfo.starts_with(kField) ? 0 : fdinfo.find("\nexp_name:\t");
  if (at == std::string_view::npos) return {};
  const std::string_view rest = fdinfo.substr(at + kField.size() + (at == 0 ? 0 : 1));
  return std::string(rest.substr(0, rest.find('\n')));
}

Result<Dmabuf> describe_dmabuf(int fd) {
  const off_t size = lseek(fd, 0, SEEK_END);
  if (size < 0) return dmabuf_error("lseek");
  if (lseek(fd, 0, SEEK_SET) < 0) return dmabuf_error("lseek");
  errno = 0;
  std::ifstream file(fmt::format("/proc/self/fdinfo/{}", fd));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.empty()) {
    if (errno == 0) errno = EIO;
    return dmabuf_error("/proc/self/fdinfo");
  }
  return Dmabuf{.size = static_cast<uint64_t>(size), .exporter = exporter_in(text)};
}

bool is_steady_exporter(std::string_view exporter) { return exporter == "udmabuf"; }

}  // namespace uroce::service
