#include "uroced/metrics_server.h"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace uroce::daemon {

namespace {

constexpr unsigned kConnections = 16;
constexpr unsigned kConnectionsOfHost = 4;
constexpr unsigned kSeconds = 10;  ///< that a connection lasts
constexpr std::size_t kConnectionBytes = 16384;
constexpr int kBacklog = 16;
constexpr std::string_view kNeeded = "an address with a port, like \"127.0.0.1:9464\" or \"[::1]:9464\"";

MHD_Result respond(MHD_Connection* connection, unsigned status, const std::string& text, const char* type) {
  // The library copies the text, and only reads it.
  MHD_Response* response =
      MHD_create_response_from_buffer(text.size(), const_cast<char*>(text.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  const MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

MHD_Result answer(void* self, MHD_Connection* connection, const char* url, const char* method, const char* /*version*/,
                  const char* /*upload*/, std::size_t* upload_bytes, void** /*state*/) {
  constexpr const char* kPlain = "text/plain; charset=utf-8";
  const std::string_view verb = method;
  if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD) {
    *upload_bytes = 0;
    return respond(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are served\n", kPlain);
  }
  if (std::string_view(url) != "/metrics") {
    return respond(connection, MHD_HTTP_NOT_FOUND, "the metrics of uroced are at /metrics\n", kPlain);
  }
  const auto state = static_cast<const MetricsServer*>(self)->read()();
  if (!state) return respond(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "uroced is starting or ending\n", kPlain);
  const char* accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
  const bool open = accept != nullptr && std::strstr(accept, "application/openmetrics-text") != nullptr;
  const auto format = open ? metrics::Format::openmetrics : metrics::Format::prometheus;
  return respond(connection, MHD_HTTP_OK, metrics::page(*state, format), metrics::content_type(format));
}

MHD_Result admit(void* self, const sockaddr* from, socklen_t /*bytes*/) {
  return static_cast<MetricsServer*>(self)->bounds().admits(*from) ? MHD_YES : MHD_NO;
}

void note_connection(void* self, MHD_Connection* connection, void** /*state*/, MHD_ConnectionNotificationCode what) {
  ConnectionBounds& bounds = static_cast<MetricsServer*>(self)->bounds();
  const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (info == nullptr) return;
  const int fd = info->connect_fd;  // later versions of the library overwrite it at the next question
  if (what != MHD_CONNECTION_NOTIFY_STARTED) return bounds.ended(fd);
  const MHD_ConnectionInfo* from = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (from != nullptr) bounds.began(fd, *from->client_addr);
}

// A stranger who sends nonsense must not fill the daemon's log.
void log_nothing(void*, const char*, va_list) {}

Result<int> listen_at(const std::string& text, const ListenAddress& where) {
  const auto failed = [&text](int fd) {
    const int code = errno;
    if (fd >= 0) close(fd);
    return fail(code, fmt::format("cannot listen for metrics on {}: {}; set metrics.listen to another address or port",
                                  text, std::strerror(code)));
  };
  const int fd = socket(where.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return failed(fd);
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&where.address), where.bytes) != 0) return failed(fd);
  if (listen(fd, kBacklog) != 0) return failed(fd);
  return fd;
}

}  // namespace

Result<ListenAddress> parse_listen_address(std::string_view text) {
  const auto refused = fail(EINVAL, fmt::format("it must be {}", kNeeded));
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return refused;
  uint16_t port = 0;
  const std::string_view digits = text.substr(colon + 1);
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || rest != digits.data() + digits.size() || port == 0) return refused;
  std::string host(text.substr(0, colon));
  ListenAddress out;
  if (host.starts_with('[') && host.ends_with(']')) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    host = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) return refused;
    std::memcpy(&out.address, &v6, sizeof v6);
    out.bytes = sizeof v6;
    return out;
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) != 1) return refused;
  std::memcpy(&out.address, &v4, sizeof v4);
  out.bytes = sizeof v4;
  return out;
}

message::Fd MetricsServer::inherit(message::Belongings& belongings, const std::string& listen) {
  message::Fd fd = belongings.take(kName);
  const auto where = parse_listen_address(listen);
  if (!where || !message::is_socket(fd.get(), where->address.ss_family, SOCK_STREAM)) return {};
  if (!message::is_bound_to(fd.get(), reinterpret_cast<const sockaddr*>(&where->address), where->bytes)) return {};
  return fd;
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const std::string& listen, Read read,
                                                            message::Fd inherited) {
  const auto where = parse_listen_address(listen);
  if (!where) return fail(EINVAL, fmt::format("metrics.listen = \"{}\": {}", listen, where.error().text));
  const auto fd = inherited ? Result<int>(inherited.release()) : listen_at(listen, *where);
  if (!fd) return std::unexpected(fd.error());
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::move(read)));
  server->daemon_ = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, admit, server.get(), answer, server.get(),
      MHD_OPTION_NOTIFY_CONNECTION, note_connection, server.get(), MHD_OPTION_EXTERNAL_LOGGER, log_nothing, nullptr,
      MHD_OPTION_LISTEN_SOCKET, *fd, MHD_OPTION_CONNECTION_LIMIT, kConnections, MHD_OPTION_CONNECTION_TIMEOUT, kSeconds,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes, MHD_OPTION_END);
  if (server->daemon_ == nullptr) {
    close(*fd);
    return fail(ENOMEM, fmt::format("cannot serve metrics on {}: no thread or descriptor is left; raise the limits "
                                    "(LimitNPROC, LimitNOFILE)",
                                    listen));
  }
  server->listener_ = *fd;
  return server;
}

MetricsServer::MetricsServer(Read read)
    : read_(std::move(read)), bounds_(kConnectionsOfHost, std::chrono::seconds(kSeconds)) {}

MetricsServer::~MetricsServer() {
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

}  // namespace uroce::daemon
