package io.headrace.spark

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.{JobContext, TaskAttemptContext}
import org.apache.spark.internal.io.{FileCommitProtocol, FileNameSpec}
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage

/** Lets tasks write files where they are to be, since S3 cannot rename: a file appears when its upload is complete, and each attempt of a
  * task has names of its own. The driver at last writes the names of the files of the tasks that count into the file `FilesInPlace.Names`.
  * Those of others may be left.
  */
final class FilesInPlace(jobId: String, folder: String) extends FileCommitProtocol with Serializable {
  @transient private var written: ArrayBuffer[String] = _

  override def setupJob(job: JobContext): Unit = ()

  override def setupTask(task: TaskAttemptContext): Unit = written = ArrayBuffer.empty

  override def newTaskTempFile(task: TaskAttemptContext, dir: Option[String], spec: FileNameSpec): String = {
    require(dir.isEmpty, "files of a batch are in one folder")
    val part = task.getTaskAttemptID.getTaskID.getId
    val name = f"part-$part%05d-${UUID.randomUUID}${spec.suffix}"
    written += name
    new Path(folder, name).toString
  }

  override def newTaskTempFile(task: TaskAttemptContext, dir: Option[String], ext: String): String =
    newTaskTempFile(task, dir, FileNameSpec("", ext))

  override def newTaskTempFileAbsPath(task: TaskAttemptContext, absoluteDir: String, ext: String): String =
    throw new UnsupportedOperationException(s"$jobId writes files of one folder")

  override def commitTask(task: TaskAttemptContext): TaskCommitMessage = new TaskCommitMessage(written.toSeq)

  override def abortTask(task: TaskAttemptContext): Unit = {
    val files = new Path(folder).getFileSystem(task.getConfiguration)
    for (name <- written)
      try { val _ = files.delete(new Path(folder, name), false) }
      catch { case _: IOException => () }
  }

  override def commitJob(job: JobContext, tasks: Seq[TaskCommitMessage]): Unit = {
    val names = tasks.flatMap(_.obj.asInstanceOf[Seq[String]])
    val list = new Path(folder, FilesInPlace.Names)
    val stream = list.getFileSystem(job.getConfiguration).create(list, true)
    try stream.write(names.mkString("\n").getBytes(UTF_8))
    finally stream.close()
  }

  override def abortJob(job: JobContext): Unit = ()
}

object FilesInPlace {
  val Names = "_files"
}
