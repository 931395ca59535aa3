package io.headrace.spark

import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions

import org.apache.hadoop.fs.{LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.permission.FsPermission

/** Hadoop's local file system, without a process for each new file.
  *
  * Where Hadoop's native library is missing, as here, it runs `chmod` for each file that it makes, and one more for the
  * checksum file beside it: four processes for every micro-batch of every query, a quarter of the time of a small one.
  * Checkpoints are on a file system that has checksums of its own, or should be.
  */
final class NioLocalFileSystem extends LocalFileSystem(new NioRawLocalFileSystem) {
  setWriteChecksum(false)
}

private final class NioRawLocalFileSystem extends RawLocalFileSystem {

  override def setPermission(path: Path, permission: FsPermission): Unit = {
    val symbols = Seq(permission.getUserAction, permission.getGroupAction, permission.getOtherAction).map(_.SYMBOL)
    val _ = Files.setPosixFilePermissions(pathToFile(path).toPath, PosixFilePermissions.fromString(symbols.mkString))
  }
}
