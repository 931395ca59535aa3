package io.headrace.iceberg

import java.util

import software.amazon.awssdk.auth.credentials.{AwsBasicCredentials, AwsCredentials, AwsCredentialsProvider}

/** A store's own keys, for Glue: Iceberg has settings for S3's alone, and else takes the machine's. */
final class StoreKeys private (keys: AwsBasicCredentials) extends AwsCredentialsProvider {
  override def resolveCredentials(): AwsCredentials = keys
}

object StoreKeys {

  /** What Iceberg calls, with the settings under `client.credentials-provider.`. */
  def create(settings: util.Map[String, String]): StoreKeys =
    new StoreKeys(AwsBasicCredentials.create(settings.get("id"), settings.get("secret")))
}
