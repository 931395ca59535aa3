// Loaded before the stand-in, which would listen on every address: here every server listens on loopback.
const net = require("net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (where, ...rest) {
  const port = typeof where === "object" && where !== null ? where.port : where;
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, ...rest.filter((value) => typeof value === "function"));
};
