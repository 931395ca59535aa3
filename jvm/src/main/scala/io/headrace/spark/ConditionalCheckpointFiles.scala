package io.headrace.spark

import java.io.{FileNotFoundException, IOException}

import scala.language.existentials

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, FileStatus, FileSystem, FSDataOutputStream, Path, PathFilter}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager

/** Files of checkpoints in S3: a file appears as a whole when its upload is complete, and one that must not replace another
  * is uploaded with the condition that there is none, which S3 itself checks. Nothing is renamed: S3 can only copy.
  *
  * Other files, such as those of interactive queries on the local disk, are written as by Spark.
  */
final class ConditionalCheckpointFiles(path: Path, settings: Configuration)
    extends FileSystemBasedCheckpointFileManager(path, settings) {

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream =
    if (isLocal) super.createAtomic(path, overwriteIfPossible) else new Upload(fs, path, overwriteIfPossible)

  /** A folder exists in S3 only by the files in it. */
  override def list(path: Path, filter: PathFilter): Array[FileStatus] =
    try super.list(path, filter)
    catch { case _: FileNotFoundException if !isLocal => Array.empty }
}

private object Upload {

  def begin(files: FileSystem, path: Path, replaces: Boolean): FSDataOutputStream = {
    val file = files.createFile(path).overwrite(true)
    // Of S3A: no requests whether there is a folder of that name, and the condition. One that did not know the condition would fail.
    file.opt("fs.s3a.create.performance", true)
    if (!replaces) file.must("fs.option.create.conditional.overwrite", true)
    file.build()
  }
}

private final class Upload(files: FileSystem, path: Path, replaces: Boolean)
    extends CancellableFSDataOutputStream(Upload.begin(files, path, replaces)) {
  private val stream = underlyingStream.asInstanceOf[FSDataOutputStream]
  private var ended = false

  override def close(): Unit = synchronized {
    if (!ended) {
      ended = true
      try stream.close()
      catch {
        case error: IOException if !replaces && files.exists(path) =>
          // What Spark expects where another run of the query has logged the batch.
          throw new FileAlreadyExistsException(s"$path exists already").initCause(error)
      }
    }
  }

  override def cancel(): Unit = synchronized {
    if (!ended) {
      ended = true
      val _ = stream.abort()
      stream.close()
    }
  }
}
